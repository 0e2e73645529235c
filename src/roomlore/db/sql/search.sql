-- name: filter_size
select
  rooms_size(%(room_ids)s::uuid[]) as message_count,
  array(
    select distinct substring(relname from '_near_(\d+)$')::integer
    from pg_class
    where relnamespace = 'roomlore'::regnamespace and relkind = 'i' and relname ~ '^message_embeddings_.*_near_\d+$'
  ) as indexed_lengths;

-- name: dense_candidates_exact
select message_id, similarity
from dense_candidates_exact(
  %(vector_2)s::halfvec, %(vector_1)s,
  %(search_filter)s::search_filter,
  %(wanted)s
);

-- name: dense_candidates_indexed
select message_id, similarity
from dense_candidates_indexed(
  %(vector_2)s::halfvec, %(vector_1)s,
  %(search_filter)s::search_filter,
  %(wanted)s
);

-- name: best_matching
select lexemes, rarities, message_ids
from lexical_candidates(
  %(question)s,
  %(search_filter)s::search_filter,
  %(is_large)s, %(wanted)s
);

-- name: query_lexemes
-- The words that `lexical_candidates` takes.
select first.lexeme
from (
  select one.lexeme from unnest(to_tsvector('english', %(question)s)) as one order by one.positions[1] limit 64
) as first
order by 1;

-- name: lexical_among
select message.id as message_id
from unnest(%(message_ids)s::uuid[]) as one (id)
cross join lateral (
  select messages.id, messages.words, messages.sent_at
  from messages
  where messages.org_id = (select current_org()) and messages.id = one.id
  limit 1
) as message
where message.words @@ any_word(variadic %(lexemes)s::text[])
order by message.sent_at desc, message.id
limit %(wanted)s;

-- name: pending_in_projection
-- Uses index: work_asked
select subject_id as message_id
from work_queue
where org_id = %(org_id)s and queue = %(target)s and dead_lettered_at is null
order by asked_at desc
limit %(limit)s;

-- name: messages_around
select message_id, author_name, follows, size, counts, similarity, matches_filter
from context_window(
  %(seeds)s::uuid[], %(lexemes)s::text[], %(vector_2)s::halfvec, %(vector_1)s,
  %(search_filter)s::search_filter,
  %(reach)s
);

-- name: thread_messages
-- The walk goes up first, then down. Each reply is walked once, so threads are trees that never overlap. Each table is
-- read row by row through an index, whatever the planner believes about its size.
-- Uses indexes: replies_from, replies_to
with recursive up as (
  select hit.id as member_id, edge.parent_id, edge.method, edge.confidence, edge.answer_probability
  from unnest(%(ids)s::uuid[]) as hit (id)
  left join lateral (
    select above.parent_id, above.method, above.confidence, above.answer_probability
    from thread_edges as above
    where above.org_id = %(org_id)s and above.child_id = hit.id
    limit 1
  ) as edge on true
  union
  select up.parent_id, edge.parent_id, edge.method, edge.confidence, edge.answer_probability
  from up
  left join lateral (
    select above.parent_id, above.method, above.confidence, above.answer_probability
    from thread_edges as above
    where above.org_id = %(org_id)s and above.child_id = up.parent_id
    limit 1
  ) as edge on true
  where up.parent_id is not null
),
down as (
  -- The results are arrays, which the planner estimates as small. With rows, it would expect millions of results and
  -- spend more time on memory for them than the whole walk takes.
  select known.member_id, known.parent_id, known.method, known.confidence, known.answer_probability
  from (
    select
      array_agg(up.member_id) as member_ids, array_agg(up.parent_id) as parent_ids,
      array_agg(up.method) as methods, array_agg(up.confidence) as confidences,
      array_agg(up.answer_probability) as answer_probabilities
    from up
  ) as above
  cross join lateral unnest(
      above.member_ids, above.parent_ids, above.methods, above.confidences, above.answer_probabilities
    ) as known (member_id, parent_id, method, confidence, answer_probability)
  union
  select edge.child_id, down.member_id, edge.method, edge.confidence, edge.answer_probability
  from down
  cross join lateral (
    select below.child_id, below.method, below.confidence, below.answer_probability
    from thread_edges as below
    where below.org_id = %(org_id)s and below.parent_id = down.member_id
    offset 0
  ) as edge
)
select
  down.member_id, down.parent_id, down.method, down.confidence, down.answer_probability, place.sent_at, place.sequence
from down
cross join lateral (
  select messages.sent_at, messages.sequence
  from messages
  where messages.org_id = %(org_id)s and messages.id = down.member_id
  limit 1
) as place;

-- name: root_messages
-- Messages without an earlier parent. A message whose parent is later may be part of a cycle.
-- Uses indexes: messages_in_order, replies_from
select message.id as message_id, message.sent_at, message.sequence
from messages as message
where message.org_id = %(org_id)s
  and message.room_id = %(room_id)s
  and (message.sent_at, message.sequence, message.id)
    < (%(before_1)s::timestamptz, %(before_2)s::bigint, %(before_3)s::uuid)
  and (
    select above.id
    from thread_edges as edge
    join messages as above on above.org_id = edge.org_id and above.id = edge.parent_id
    where edge.org_id = message.org_id
      and edge.child_id = message.id
      and (above.sent_at, above.sequence, above.id) < (message.sent_at, message.sequence, message.id)
    limit 1
  ) is null
order by message.sent_at desc, message.sequence desc, message.id desc
limit %(limit)s;

-- name: token_rows
select message_id, tokens from token_vectors(%(model)s, %(ids)s);

-- name: newest_by_authors
-- First the newest messages of each author are read, then the newest of these, so that no more is read than needed.
-- Uses index: messages_by_author
select message.id as message_id
from (select (%(search_filter)s::search_filter).*) as filters
cross join lateral (
  select named.id from unnest(filters.authors) as named (id)
  union
  select participants.id
  from participants
  where participants.org_id = %(org_id)s
    and filters.authors is null
) as author
cross join lateral (
  select messages.id, messages.sent_at, messages.sequence
  from messages
  where messages.org_id = %(org_id)s
    and messages.author_id = author.id
    and (filters.author_kinds is null or messages.author_kind = any (filters.author_kinds))
    and (filters.rooms is null or messages.room_id = any (filters.rooms))
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as index bounds, even in a generic plan
    and messages.sent_at >= coalesce(filters.since, '-infinity')
    and messages.sent_at < coalesce(filters.until, 'infinity')
    and (
      filters.last_id is null
      or (messages.sent_at, messages.sequence, messages.id)
        <= (filters.last_at, filters.last_order, filters.last_id)
    )
    and (
      filters.conversations is null or conversation_of(messages.id) = any (filters.conversations)
    )
    and (
      filters.is_answered is null
      or (filters.is_answered or messages.asks) and filters.is_answered = (
        (
          select answer.id
          from thread_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- only messages sent by that time
            and (
              filters.last_id is null
              or (answer.sent_at, answer.sequence, answer.id)
                <= (filters.last_at, filters.last_order, filters.last_id)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.sequence desc, messages.id desc
  limit %(limit)s
) as message
order by message.sent_at desc, message.sequence desc, message.id desc
limit %(limit)s;

-- name: newest_in_rooms
-- First the newest messages of each room are read, then the newest of these, so that no more is read than needed.
-- Uses index: messages_in_order
select message.id as message_id
from (select (%(search_filter)s::search_filter).*) as filters
cross join rooms
cross join lateral (
  select messages.id, messages.sent_at, messages.sequence
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as index bounds, even in a generic plan
    and messages.sent_at >= coalesce(filters.since, '-infinity')
    and messages.sent_at < coalesce(filters.until, 'infinity')
    and (
      filters.last_id is null
      or (messages.sent_at, messages.sequence, messages.id)
        <= (filters.last_at, filters.last_order, filters.last_id)
    )
    and (
      filters.conversations is null or conversation_of(messages.id) = any (filters.conversations)
    )
    and (
      filters.is_answered is null
      or (filters.is_answered or messages.asks) and filters.is_answered = (
        (
          select answer.id
          from thread_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- only messages sent by that time
            and (
              filters.last_id is null
              or (answer.sent_at, answer.sequence, answer.id)
                <= (filters.last_at, filters.last_order, filters.last_id)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.sequence desc, messages.id desc
  limit %(limit)s
) as message
where rooms.org_id = %(org_id)s and (filters.rooms is null or rooms.id = any (filters.rooms))
order by message.sent_at desc, message.sequence desc, message.id desc
limit %(limit)s;
