-- Memories: what was drawn from messages or asserted, what it rests on and whom it names.

-- name: newest -> MemoryCursor
-- The newest memories that the viewer may see, newest first, as far as they are meant.
-- Uses index: memories_by_time
select memory_id as id, valid_from
from newest_memories(
  %(room_ids)s::uuid[], %(subject_ids)s::uuid[], %(author_ids)s::uuid[], %(perspective_ids)s::uuid[],
  %(kinds)s::text[], %(statuses)s::text[], %(tags)s::text[], %(task_id)s::text, %(since)s::timestamptz,
  %(as_of)s::timestamptz, %(before_at)s::timestamptz, %(before_id)s::uuid, %(limit)s
)
order by valid_from desc, memory_id desc;

-- name: resting_on -> MemoryRef
-- The newest memories that rest on a message.
select memories.id
from resting_on(array[%(message_id)s::uuid]) as rests
join memories on memories.org_id = %(org_id)s and memories.id = rests.memory_id
order by memories.valid_from desc, memories.id desc
limit %(limit)s;

-- name: find -> MemoryRef
-- The memories whose ids begin or end so.
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (
    memories.id between %(low)s and %(high)s
    or memories.id_from_end between %(end_low)s and %(end_high)s
  )
order by memories.id
limit 10;

-- name: memories_by_id -> MemoryRow
-- These memories as far as they are visible, newest first, all or as many as one answer holds; whoever asserted one, and where, only as far as known. What
-- they rest on and whom they name is asked for all of them at once: whether one may be seen is dear.
with ties as materialized (
  select memory_id, message_id, quote_start, quote_end, drawn_by, participant_id, role, tag
  from ties_of(%(memory_ids)s::uuid[])
),
rests as materialized (
  select
    ties.memory_id,
    array_agg(ties.message_id order by said.sent_at, said.native_order, said.id) as source_ids,
    array_agg(ties.quote_start order by said.sent_at, said.native_order, said.id) as quote_starts,
    array_agg(ties.quote_end order by said.sent_at, said.native_order, said.id) as quote_ends,
    min(ties.drawn_by) as extractor,
    max(said.edited_at) as edited_at
  from ties
  join messages as said on said.org_id = %(org_id)s and said.id = ties.message_id
  group by ties.memory_id
),
bears as materialized (
  select
    ties.memory_id,
    array_agg(ties.tag order by ties.tag) filter (where ties.tag is not null) as tags,
    array_agg(ties.participant_id order by ties.role, ties.participant_id) filter (where ties.role is not null)
      as participant_ids,
    array_agg(ties.role order by ties.role, ties.participant_id) filter (where ties.role is not null) as roles
  from ties
  where ties.message_id is null
  group by ties.memory_id
)
select
  id, kind, title, content, importance, confidence, sensitivity, status, extractor, audience, asserted_by, asserted_in,
  recorded_at, valid_from, source_ids, quote_starts, quote_ends, participant_ids, roles, tags, metadata, task_id, slot,
  is_outdated, superseded_by, reach
from (
  select
    memories.id, memories.kind, memories.title, memories.content, memories.importance, memories.confidence,
    memories.sensitivity, memories.status, rests.extractor, memories.audience, asserter.id as asserted_by,
    held.id as asserted_in, memories.recorded_at, memories.valid_from,
    coalesce(rests.source_ids, '{}') as source_ids,
    coalesce(rests.quote_starts, '{}') as quote_starts,
    coalesce(rests.quote_ends, '{}') as quote_ends,
    coalesce(bears.participant_ids, '{}') as participant_ids,
    coalesce(bears.roles, '{}') as roles,
    coalesce(bears.tags, '{}') as tags,
    memories.metadata, memories.task_id, memories.slot,
    coalesce(rests.edited_at > memories.recorded_at, false) as is_outdated,
    memories.superseded_by, large.size,
    sum(large.size) over (
      order by memories.valid_from desc, memories.id desc rows unbounded preceding
    )::bigint as reach
  from memories
  cross join lateral (
    select octet_length(memories.content) + octet_length(memories.metadata::text) as size
  ) as large
  left join participants as asserter
    on asserter.org_id = memories.org_id and asserter.id = memories.asserted_by
  left join rooms as held on held.org_id = memories.org_id and held.id = memories.asserted_in
  left join rests on rests.memory_id = memories.id
  left join bears on bears.memory_id = memories.id
  where memories.org_id = %(org_id)s and memories.id = any (%(memory_ids)s)
) as found
where %(most_bytes)s::bigint is null or reach - size < %(most_bytes)s::bigint
order by valid_from desc, id desc;

-- name: known_names -> KnownName
-- What the viewer may call these participants.
select id, name
from known_participants
where org_id = %(org_id)s and id = any (%(participant_ids)s);

-- name: worded -> LexicalMatch
-- The visible memories that share words with a question, those with the rarest first.
select memory_id, coverage, terms from worded_memories(%(question)s, %(wanted)s);

-- name: successors -> Successor
-- The memories that took the place of these, however many times, nearest first.
-- Ends also in a circle, which nobody can make by remembering.
with recursive later (memory_id, id, seen) as (
  select memories.id, memories.superseded_by, array[memories.id, memories.superseded_by]
  from memories
  where memories.org_id = %(org_id)s
    and memories.id = any (%(memory_ids)s)
    and memories.superseded_by is not null
  union all
  select later.memory_id, memories.superseded_by, later.seen || memories.superseded_by
  from later
  join memories on memories.org_id = %(org_id)s and memories.id = later.id
  where memories.superseded_by is not null and not memories.superseded_by = any (later.seen)
)
select memory_id, id from later order by memory_id, cardinality(seen);

-- name: predecessors -> MemoryRef
-- The memories of which this one took the place, however many times.
-- Uses index: memories_superseded
with recursive earlier (id) as (
  select memories.id
  from memories
  where memories.org_id = %(org_id)s and memories.superseded_by = %(memory_id)s
  union
  select memories.id
  from earlier
  join memories on memories.org_id = %(org_id)s and memories.superseded_by = earlier.id
)
select id from earlier where id <> %(memory_id)s;

-- Memories that say the like of what is stated, or the contrary, in other words.

-- name: kin -> LinkTarget
-- A memory that stands in a circle, and when it was last said: not what a person asserted, nor what a wish covers, which
-- it may have become since a language model was told of it.
select
  memories.id, memories.slot,
  coalesce(
    (
      select max(messages.sent_at)
      from memory_sources
      join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
      where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
    ),
    memories.valid_from
  ) as said_at
from memories
where memories.org_id = %(org_id)s
  and memories.id = %(id)s
  and memories.circle = %(circle)s
  and memories.status = 'active'
  and memories.sensitivity = 'normal'
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = memories.org_id
      and memory_sources.memory_id = memories.id
      and (
        memory_sources.drawn_by is null
        or exists (
          select 1
          from withheld
          where withheld.org_id = memory_sources.org_id and withheld.message_id = memory_sources.message_id
        )
      )
  );

-- name: offered -> PromptCandidate
-- What was drawn and stands of these circles, but for what rests on these messages or on what a wish covers: what
-- shares most words with a text first; what is about nobody shares one at least.
-- Uses index: memories_saying
select found.id, found.kind, found.content, found.slot, found.circle, found.source_ids
from (
  select
    held.*,
    array(
      select memory_sources.message_id
      from memory_sources
      where memory_sources.org_id = held.org_id and memory_sources.memory_id = held.id
    ) as source_ids,
    (
      select count(*)
      from unnest(tsvector_to_array(held.words)) as one (lexeme)
      where one.lexeme = any (told.lexemes)
    ) as shared
  from (
    select *
    from memories
    where org_id = %(org_id)s
      and circle = any (%(circles)s)
      and status = 'active'
      -- may have become so since
      and sensitivity = 'normal'
    order by valid_from desc, id
    limit %(looked_at)s
  ) as held
  cross join (select tsvector_to_array(to_tsvector('english'::regconfig, %(text)s)) as lexemes) as told
  where exists (
    select 1
    from memory_sources
    where memory_sources.org_id = held.org_id and memory_sources.memory_id = held.id
  )
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = held.org_id
      and memory_sources.memory_id = held.id
      and (
        memory_sources.drawn_by is null
        or memory_sources.message_id = any (%(message_ids)s)
        or exists (
          select 1
          from withheld
          where withheld.org_id = memory_sources.org_id and withheld.message_id = memory_sources.message_id
        )
      )
  )
) as found
where found.shared > 0 or found.circle <> %(of_nobody)s
order by found.shared desc, found.valid_from desc, found.id
limit %(limit)s;

-- name: there -> MemoryCount
-- How many of these memories are there.
select count(*) as count from memories where org_id = %(org_id)s and id = any (%(memory_ids)s);
