-- name: newest_matching
-- Uses index: memories_by_time
select memory_id as id, valid_from
from newest_memories(
  %(room_ids)s::uuid[], %(subject_ids)s::uuid[], %(author_ids)s::uuid[], %(perspective_ids)s::uuid[],
  %(kinds)s::text[],
  -- a memory that was active at that time may have another status now
  case when %(as_of)s::timestamptz is null then %(statuses)s::text[] end,
  %(tags)s::text[], %(task_id)s::text, %(since)s::timestamptz, %(as_of)s::timestamptz,
  %(position_1)s::timestamptz, %(position_2)s::uuid, %(limit)s
)
order by valid_from desc, memory_id desc;

-- name: ids_from_message
select memories.id
from derived_from(array[%(message_id)s::uuid]) as rests
join memories on memories.org_id = %(org_id)s and memories.id = rests.memory_id
order by memories.valid_from desc, memories.id desc
limit %(limit)s;

-- name: ids_in_ranges
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (
    memories.id between %(low)s and %(high)s
    or memories.id_from_end between %(end_low)s and %(end_high)s
  )
order by memories.id
limit 10;

-- name: memory_rows
-- Sources, participants and tags of all memories are read at once, because visibility is expensive to check.
with ties as materialized (
  select memory_id, message_id, quote_start, quote_end, extracted_by, participant_id, role, tag
  from links_of(%(memory_ids)s::uuid[])
),
rests as materialized (
  select
    ties.memory_id,
    array_agg(ties.message_id order by message.sent_at, message.sequence, message.id) as source_ids,
    array_agg(ties.quote_start order by message.sent_at, message.sequence, message.id) as quote_starts,
    array_agg(ties.quote_end order by message.sent_at, message.sequence, message.id) as quote_ends,
    min(ties.extracted_by) as extractor,
    max(message.edited_at) as edited_at
  from ties
  join messages as message on message.org_id = %(org_id)s and message.id = ties.message_id
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
  recorded_at, valid_from, source_ids, quote_starts, quote_ends, participant_ids, roles, tags, metadata, task_id,
  is_outdated, superseded_by
from (
  select
    memories.id, memories.kind, memories.title, memories.content, memories.importance, memories.confidence,
    memories.sensitivity, memories.status, rests.extractor, memories.audience, asserter.id as asserted_by,
    room.id as asserted_in, memories.recorded_at, memories.valid_from,
    coalesce(rests.source_ids, '{}') as source_ids,
    coalesce(rests.quote_starts, '{}') as quote_starts,
    coalesce(rests.quote_ends, '{}') as quote_ends,
    coalesce(bears.participant_ids, '{}') as participant_ids,
    coalesce(bears.roles, '{}') as roles,
    coalesce(bears.tags, '{}') as tags,
    memories.metadata, memories.task_id,
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
  left join rooms as room on room.org_id = memories.org_id and room.id = memories.asserted_in
  left join rests on rests.memory_id = memories.id
  left join bears on bears.memory_id = memories.id
  where memories.org_id = %(org_id)s and memories.id = any (%(memory_ids)s)
) as found
where %(most_bytes)s::bigint is null or reach - size < %(most_bytes)s::bigint
order by valid_from desc, id desc;

-- name: known_names
select id, name
from known_participants
where org_id = %(org_id)s and id = any (%(ids)s);

-- name: matching_question
select memory_id, coverage, terms from lexical_memories(%(question)s, %(wanted)s);

-- name: successors
-- Stops at a cycle.
with recursive later (memory_id, id, seen) as (
  select memories.id, memories.superseded_by, array[memories.id, memories.superseded_by]
  from memories
  where memories.org_id = %(org_id)s
    and memories.id = any (%(ids)s)
    and memories.superseded_by is not null
  union all
  select later.memory_id, memories.superseded_by, later.seen || memories.superseded_by
  from later
  join memories on memories.org_id = %(org_id)s and memories.id = later.id
  where memories.superseded_by is not null and not memories.superseded_by = any (later.seen)
)
select memory_id, array_agg(id order by cardinality(seen)) from later group by memory_id;

-- name: predecessor_ids
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

-- name: find_link_target
-- A language model saw the memory earlier. Since then, a privacy request may cover it, or it may have become sensitive.
select
  memories.id,
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
  and memories.id = %(memory_id)s
  and memories.dedup_scope = %(dedup_scope)s
  and memories.status = 'active'
  and memories.sensitivity = 'normal'
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = memories.org_id
      and memory_sources.memory_id = memories.id
      and (
        memory_sources.extracted_by is null
        or exists (
          select 1
          from restricted_messages
          where restricted_messages.org_id = memory_sources.org_id and restricted_messages.message_id = memory_sources.message_id
        )
      )
  );

-- name: prompt_candidates
-- Uses index: memories_saying
select candidate.id, candidate.kind, candidate.content, candidate.dedup_scope, candidate.source_ids
from (
  select
    recent.*,
    array(
      select memory_sources.message_id
      from memory_sources
      where memory_sources.org_id = recent.org_id and memory_sources.memory_id = recent.id
    ) as source_ids,
    (
      select count(*)
      from unnest(tsvector_to_array(recent.words)) as one (lexeme)
      where one.lexeme = any (text.lexemes)
    ) as shared
  from (
    select *
    from memories
    where org_id = %(org_id)s
      and dedup_scope = any (%(circles)s)
      and status = 'active'
      and sensitivity = 'normal'
    order by valid_from desc, id
    limit %(scanned)s
  ) as recent
  cross join (select tsvector_to_array(to_tsvector('english'::regconfig, %(text)s)) as lexemes) as text
  where exists (
    select 1
    from memory_sources
    where memory_sources.org_id = recent.org_id and memory_sources.memory_id = recent.id
  )
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = recent.org_id
      and memory_sources.memory_id = recent.id
      and (
        memory_sources.extracted_by is null
        or memory_sources.message_id = any (%(besides)s)
        or exists (
          select 1
          from restricted_messages
          where restricted_messages.org_id = memory_sources.org_id and restricted_messages.message_id = memory_sources.message_id
        )
      )
  )
) as candidate
where candidate.shared > 0 or candidate.dedup_scope <> %(of_nobody)s
order by candidate.shared desc, candidate.valid_from desc, candidate.id
limit %(limit)s;

-- name: all_exist
select count(*) = cardinality(%(ids)s::uuid[]) from memories where org_id = %(org_id)s and id = any (%(ids)s);

-- name: existing_ids
select id from memories where org_id = %(org_id)s and id = any (%(ids)s::uuid[]);
