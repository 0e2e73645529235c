-- Candidates for a question. Visibility is decided inside the functions called here.

-- name: measure_scope -> ScopeMeasure
-- What chooses the faster way to search: how many messages lie in the scope, visible or not, and whether
-- there is an approximate index.
select
  scope_size(%(room_ids)s::uuid[]) as message_count,
  exists (
    select 1 from pg_class
    where relnamespace = 'roomlore'::regnamespace and relkind = 'i' and relname like 'message\_embeddings\_%%\_near'
  ) as has_index;

-- name: candidates -> Candidate
-- The best messages by meaning and by words, scores of each side scaled to 0..1 and averaged.
with dense as (
  select message_id, similarity
  from nearest_exact(
    %(vector)s::halfvec, %(model)s, %(room_ids)s, %(author_ids)s, %(author_kinds)s, %(since)s, %(until)s,
    %(wanted)s
  )
  where %(vector)s::halfvec is not null and %(exact)s
  union all
  select message_id, similarity
  from nearest_indexed(
    %(vector)s::halfvec, %(model)s, %(room_ids)s, %(author_ids)s, %(author_kinds)s, %(since)s, %(until)s,
    %(wanted)s
  )
  where %(vector)s::halfvec is not null and not %(exact)s
),
worded as (
  select message_id, weight, coverage, terms
  from best_worded(
    %(question)s, %(room_ids)s, %(author_ids)s, %(author_kinds)s, %(since)s, %(until)s, %(wanted)s
  )
),
-- Of messages with the same time the functions above cannot tell which came first.
late as (
  select proposed.message_id as id
  from (select message_id from dense union select message_id from worded) as proposed
  cross join lateral (
    select messages.sent_at, messages.native_order, messages.id
    from messages
    where messages.org_id = %(org_id)s and messages.id = proposed.message_id
    limit 1
  ) as place
  where %(last_id)s::uuid is not null
    and (place.sent_at, place.native_order, place.id)
      > (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
),
scaled as (
  select
    message_id,
    similarity,
    weight,
    coverage,
    terms,
    coalesce(
      (similarity - min(similarity) over ()) / nullif(max(similarity) over () - min(similarity) over (), 0),
      case when similarity is null then 0 else 1 end
    ) as dense_score,
    coalesce(weight / nullif(max(weight) over (), 0), 0) as worded_score
  from (select * from dense where message_id not in (select id from late)) as near
  full join (select * from worded where message_id not in (select id from late)) as shared using (message_id)
)
select
  message_id, (dense_score + worded_score) / 2 as score, similarity, weight, coverage, terms
from scaled
order by score desc, message_id
limit %(wanted)s;

-- name: exchange_members -> ExchangeMember
-- The whole exchanges of these messages: each visible member once, with the one message it stands under.
-- A member stands under the message it answers by the platform's word, else under the root of its thread,
-- so that exchanges are trees and never overlap. Up first, then down; each edge is walked once. Every table
-- is asked row by row, through an index, whatever the planner believes about its size.
-- Uses indexes: replies_stated, replies_to
with recursive up as (
  select asked.id as member_id, edge.parent_id, edge.method
  from unnest(%(message_ids)s::uuid[]) as asked (id)
  left join lateral (
    select replies.parent_id, replies.method
    from replies
    where replies.org_id = %(org_id)s
      and replies.child_id = asked.id
      and replies.method in ('explicit', 'thread')
      and replies.parent_id is not null
    order by replies.method
    limit 1
  ) as edge on true
  union
  select up.parent_id, edge.parent_id, edge.method
  from up
  left join lateral (
    select replies.parent_id, replies.method
    from replies
    where replies.org_id = %(org_id)s
      and replies.child_id = up.parent_id
      and replies.method in ('explicit', 'thread')
      and replies.parent_id is not null
    order by replies.method
    limit 1
  ) as edge on true
  where up.parent_id is not null
),
down as (
  -- Through arrays, of which the planner expects little: from the rows it would expect millions below and
  -- spend more on the room for them than the whole walk takes.
  select known.member_id, known.parent_id, known.method
  from (
    select
      array_agg(up.member_id) as member_ids, array_agg(up.parent_id) as parent_ids,
      array_agg(up.method) as methods
    from up
  ) as above
  cross join lateral unnest(above.member_ids, above.parent_ids, above.methods)
    as known (member_id, parent_id, method)
  union
  select edge.child_id, down.member_id, edge.method
  from down
  cross join lateral (
    select replies.child_id, replies.method
    from replies
    where replies.org_id = %(org_id)s
      and replies.parent_id = down.member_id
      and (
        replies.method = 'explicit'
        or replies.method = 'thread'
        -- A single value and not an existence, which might be answered by reading every edge of the org.
        and (
          select stated.parent_id
          from replies as stated
          where stated.org_id = %(org_id)s
            and stated.child_id = replies.child_id
            and stated.method = 'explicit'
        ) is null
      )
    offset 0
  ) as edge
)
select down.member_id, down.parent_id, down.method, place.sent_at, place.native_order
from down
cross join lateral (
  select messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s and messages.id = down.member_id
  limit 1
) as place;
