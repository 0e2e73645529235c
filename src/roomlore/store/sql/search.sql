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
  from dense
  full join worded using (message_id)
)
select
  message_id, (dense_score + worded_score) / 2 as score, similarity, weight, coverage, terms
from scaled
order by score desc, message_id
limit %(wanted)s;

-- name: exchange_members -> ExchangeMember
-- For each message its exchange: up the stated replies to the opening message, then down to every answer.
with recursive up as (
  select asked.id as hit_id, asked.id as member_id, 0 as height
  from unnest(%(message_ids)s::uuid[]) as asked (id)
  union all
  select up.hit_id, replies.parent_id, up.height + 1
  from up
  join replies
    on replies.org_id = %(org_id)s
    and replies.child_id = up.member_id
    and replies.method in ('explicit', 'thread')
    and replies.parent_id is not null
) cycle member_id set is_round using path,
openings as (
  select distinct on (hit_id) hit_id, member_id as opening_id
  from up
  where not is_round
  order by hit_id, height desc, member_id
),
down as (
  select distinct opening_id, opening_id as member_id from openings
  union
  select down.opening_id, replies.child_id
  from down
  join replies
    on replies.org_id = %(org_id)s
    and replies.parent_id = down.member_id
    and replies.method in ('explicit', 'thread')
)
select openings.hit_id, openings.opening_id, down.member_id
from openings
join down using (opening_id);
