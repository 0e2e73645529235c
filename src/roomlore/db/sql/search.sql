-- Candidates for a question. Visibility is decided inside the functions called here.

-- name: measure_scope -> FilterSize
-- What chooses the faster way to search: how many messages lie in the scope, visible or not, and vectors of which
-- lengths have an approximate index.
select
  scope_size(%(room_ids)s::uuid[]) as message_count,
  array(
    select distinct substring(relname from '_near_(\d+)$')::integer
    from pg_class
    where relnamespace = 'roomlore'::regnamespace and relkind = 'i' and relname ~ '^message_embeddings_.*_near_\d+$'
  ) as indexed_lengths;

-- name: nearest_exact -> DenseMatch
-- The nearest messages, every vector of the scope looked at.
select message_id, similarity
from nearest_exact(
  %(vector)s::halfvec, %(model)s,
  row(
    %(room_ids)s::uuid[], %(author_ids)s::uuid[], %(author_kinds)s::text[], %(conversation_ids)s::uuid[],
    %(answered)s::boolean, %(since)s::timestamptz, %(until)s::timestamptz,
    %(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid
  )::search_scope,
  %(wanted)s
);

-- name: nearest_indexed -> DenseMatch
-- The nearest messages through the approximate index.
select message_id, similarity
from nearest_indexed(
  %(vector)s::halfvec, %(model)s,
  row(
    %(room_ids)s::uuid[], %(author_ids)s::uuid[], %(author_kinds)s::text[], %(conversation_ids)s::uuid[],
    %(answered)s::boolean, %(since)s::timestamptz, %(until)s::timestamptz,
    %(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid
  )::search_scope,
  %(wanted)s
);

-- name: best_worded -> LexicalMatches
-- The words of a question and the messages that share most of them.
select lexemes, rarities, message_ids
from best_worded(
  %(question)s,
  row(
    %(room_ids)s::uuid[], %(author_ids)s::uuid[], %(author_kinds)s::text[], %(conversation_ids)s::uuid[],
    %(answered)s::boolean, %(since)s::timestamptz, %(until)s::timestamptz,
    %(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid
  )::search_scope,
  %(is_large)s, %(wanted)s
);

-- name: lexemes -> QueryLexemes
-- The words of a question as stems: those that `best_worded` asks for, by which nothing is looked up here.
select array(
  select first.lexeme
  from (
    select one.lexeme from unnest(to_tsvector('english', %(question)s)) as one order by one.positions[1] limit 64
  ) as first
  order by 1
) as lexemes;

-- name: worded_among -> MessageRef
-- Which of some messages share a word with a question, as far as the viewer may read them, newest first.
select said.id as message_id
from unnest(%(message_ids)s::uuid[]) as one (id)
cross join lateral (
  select messages.id, messages.words, messages.sent_at
  from messages
  where messages.org_id = (select current_org()) and messages.id = one.id
  limit 1
) as said
where said.words @@ any_word(variadic %(lexemes)s::text[])
order by said.sent_at desc, said.id
limit %(wanted)s;

-- name: not_copied -> MessageRef
-- What is still to be written to the copies of a target, latest first.
-- Uses index: work_asked
select subject_id as message_id
from work
where org_id = %(org_id)s and stage = %(target)s and set_aside_at is null
order by asked_at desc
limit %(limit)s;

-- name: surroundings -> ContextMessage
-- Messages and what stands around them, in the order of their rooms.
select message_id, author_name, follows, size, counts, similarity, fits
from surroundings(
  %(seeds)s::uuid[], %(lexemes)s::text[], %(vector)s::halfvec, %(model)s,
  row(
    %(room_ids)s::uuid[], %(author_ids)s::uuid[], %(author_kinds)s::text[], %(conversation_ids)s::uuid[],
    %(answered)s::boolean, %(since)s::timestamptz, %(until)s::timestamptz,
    %(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid
  )::search_scope,
  %(reach)s
);

-- name: exchange_members -> ThreadMessage
-- The whole exchanges of these messages: each visible member once, with the one message it stands under, so that
-- exchanges are trees and never overlap. Up first, then down; each edge is walked once. Every table is asked row
-- by row, through an index, whatever the planner believes about its size.
-- Uses indexes: replies_from, replies_to
with recursive up as (
  select asked.id as member_id, edge.parent_id, edge.method, edge.confidence
  from unnest(%(message_ids)s::uuid[]) as asked (id)
  left join lateral (
    select above.parent_id, above.method, above.confidence
    from exchange_edges as above
    where above.org_id = %(org_id)s and above.child_id = asked.id
    limit 1
  ) as edge on true
  union
  select up.parent_id, edge.parent_id, edge.method, edge.confidence
  from up
  left join lateral (
    select above.parent_id, above.method, above.confidence
    from exchange_edges as above
    where above.org_id = %(org_id)s and above.child_id = up.parent_id
    limit 1
  ) as edge on true
  where up.parent_id is not null
),
down as (
  -- Through arrays, of which the planner expects little: from the rows it would expect millions below and
  -- spend more on the room for them than the whole walk takes.
  select known.member_id, known.parent_id, known.method, known.confidence
  from (
    select
      array_agg(up.member_id) as member_ids, array_agg(up.parent_id) as parent_ids,
      array_agg(up.method) as methods, array_agg(up.confidence) as confidences
    from up
  ) as above
  cross join lateral unnest(above.member_ids, above.parent_ids, above.methods, above.confidences)
    as known (member_id, parent_id, method, confidence)
  union
  select edge.child_id, down.member_id, edge.method, edge.confidence
  from down
  cross join lateral (
    select below.child_id, below.method, below.confidence
    from exchange_edges as below
    where below.org_id = %(org_id)s and below.parent_id = down.member_id
    offset 0
  ) as edge
)
select down.member_id, down.parent_id, down.method, down.confidence, place.sent_at, place.native_order
from down
cross join lateral (
  select messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s and messages.id = down.member_id
  limit 1
) as place;

-- name: openings -> RootMessage
-- The newest messages of a room before a place that may open an exchange: those that stand under
-- nothing, and those under something later, of which a round may be made. Newest first.
-- Uses indexes: messages_in_order, replies_from
select said.id as message_id, said.sent_at, said.native_order
from messages as said
where said.org_id = %(org_id)s
  and said.room_id = %(room_id)s
  and (said.sent_at, said.native_order, said.id)
    < (%(before_at)s::timestamptz, %(before_order)s::bigint, %(before_id)s::uuid)
  and (
    select above.id
    from exchange_edges as edge
    join messages as above on above.org_id = edge.org_id and above.id = edge.parent_id
    where edge.org_id = said.org_id
      and edge.child_id = said.id
      and (above.sent_at, above.native_order, above.id) < (said.sent_at, said.native_order, said.id)
    limit 1
  ) is null
order by said.sent_at desc, said.native_order desc, said.id desc
limit %(limit)s;

-- name: token_vectors -> TokenRow
-- The token vectors of messages that the viewer may read, as far as they were made.
select message_id, tokens from token_vectors(%(model)s, %(message_ids)s);

-- name: authors -> MessageAuthor
-- Who wrote messages that the viewer may read.
select id as message_id, author_id
from messages
where org_id = %(org_id)s and id = any (%(message_ids)s::uuid[]);

-- What was said last in a scope, as far as the viewer may read it: from each author or each room the newest, of these
-- the newest again, so that no more is read than is wanted.

-- name: newest_by_authors -> ListedMessage
-- The newest messages of some authors, or of all who are of a kind by what a message says, as in a search.
-- Uses index: messages_by_author
select said.id as message_id
from (
  select named.id from unnest(%(author_ids)s::uuid[]) as named (id)
  union
  select participants.id
  from participants
  where participants.org_id = %(org_id)s
    and %(author_ids)s::uuid[] is null
) as author
cross join lateral (
  select messages.id, messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s
    and messages.author_id = author.id
    and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s::text[]))
    and (%(room_ids)s::uuid[] is null or messages.room_id = any (%(room_ids)s::uuid[]))
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as bounds of the index, also in a plan made for any time
    and messages.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and messages.sent_at < coalesce(%(until)s::timestamptz, 'infinity')
    and (
      %(last_id)s::uuid is null
      or (messages.sent_at, messages.native_order, messages.id)
        <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
    )
    and (
      %(conversation_ids)s::uuid[] is null or conversation_of(messages.id) = any (%(conversation_ids)s::uuid[])
    )
    and (
      %(answered)s::boolean is null
      or %(answered)s::boolean = (
        (
          select answer.id
          from exchange_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- said by then
            and (
              %(last_id)s::uuid is null
              or (answer.sent_at, answer.native_order, answer.id)
                <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.native_order desc, messages.id desc
  limit %(limit)s
) as said
order by said.sent_at desc, said.native_order desc, said.id desc
limit %(limit)s;

-- name: newest_in_rooms -> ListedMessage
-- The newest messages of some rooms, or of all that the viewer may see.
-- Uses index: messages_in_order
select said.id as message_id
from rooms
cross join lateral (
  select messages.id, messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as bounds of the index, also in a plan made for any time
    and messages.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and messages.sent_at < coalesce(%(until)s::timestamptz, 'infinity')
    and (
      %(last_id)s::uuid is null
      or (messages.sent_at, messages.native_order, messages.id)
        <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
    )
    and (
      %(conversation_ids)s::uuid[] is null or conversation_of(messages.id) = any (%(conversation_ids)s::uuid[])
    )
    and (
      %(answered)s::boolean is null
      or %(answered)s::boolean = (
        (
          select answer.id
          from exchange_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- said by then
            and (
              %(last_id)s::uuid is null
              or (answer.sent_at, answer.native_order, answer.id)
                <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.native_order desc, messages.id desc
  limit %(limit)s
) as said
where rooms.org_id = %(org_id)s and (%(room_ids)s::uuid[] is null or rooms.id = any (%(room_ids)s::uuid[]))
order by said.sent_at desc, said.native_order desc, said.id desc
limit %(limit)s;
