-- Memories: what was drawn from messages or asserted, what it rests on and whom it names.

-- name: lock_content
-- Only one writer at a time adds a memory of this content, so that the same one is not added twice.
select pg_advisory_xact_lock(hashtextextended('memory ' || %(org_id)s::text || ' ' || %(content)s, 0));

-- name: missing -> Missing
-- Those of these messages that have lost their words or are not there, and of these participants that are not.
select asked.id
from unnest(%(message_ids)s::uuid[]) as asked (id)
where not exists (
  select 1
  from messages
  where messages.org_id = %(org_id)s and messages.id = asked.id and messages.redacted_at is null
)
union all
select asked.id
from unnest(%(participant_ids)s::uuid[]) as asked (id)
where not exists (
  select 1 from participants where participants.org_id = %(org_id)s and participants.id = asked.id
);

-- name: same -> SameMemory
-- The memories of the same content that the same participant asserted, what they rest on and whom they name.
select
  memories.id,
  memories.recorded_at,
  array(
    select memory_sources.message_id
    from memory_sources
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = memories.id
  ) as source_ids,
  array(
    select memory_participants.participant_id
    from memory_participants
    where memory_participants.org_id = %(org_id)s
      and memory_participants.memory_id = memories.id
      and memory_participants.role = 'subject'
  ) as subject_ids,
  exists (
    select 1
    from memory_sources
    join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
    where memory_sources.org_id = %(org_id)s
      and memory_sources.memory_id = memories.id
      and messages.edited_at > memories.recorded_at
  ) as is_outdated,
  memories.superseded_by
from memories
where memories.org_id = %(org_id)s
  and memories.content = %(content)s
  and memories.kind = %(kind)s
  and memories.sensitivity = %(sensitivity)s
  and memories.asserted_by is not distinct from %(asserted_by)s
order by memories.id;

-- name: add
-- Add a memory.
insert into memories (org_id, id, kind, content, sensitivity, asserted_by, recorded_at)
values (
  %(org_id)s, %(id)s, %(kind)s, %(content)s, %(sensitivity)s, %(asserted_by)s, %(recorded_at)s
);

-- name: add_sources
-- Say which messages a memory rests on.
insert into memory_sources (org_id, memory_id, message_id)
select %(org_id)s, %(id)s, message_id
from unnest(%(source_ids)s::uuid[]) as stated (message_id);

-- name: add_participants
-- Say whom a memory names, and in which role.
insert into memory_participants (org_id, memory_id, participant_id, role)
select %(org_id)s, %(id)s, participant_id, role
from unnest(%(participant_ids)s::uuid[], %(roles)s::text[]) as stated (participant_id, role);

-- name: newest -> MemoryKey
-- The newest memories that the viewer may see, newest first; if asked, only those about some participants.
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (
    %(subject_ids)s::uuid[] is null
    or exists (
      select 1
      from memory_participants
      where memory_participants.org_id = %(org_id)s
        and memory_participants.memory_id = memories.id
        and memory_participants.role = 'subject'
        and memory_participants.participant_id = any (%(subject_ids)s::uuid[])
    )
  )
order by memories.id desc
limit %(limit)s;

-- name: find -> MemoryKey
-- The memories whose ids begin with these digits; compared as ids, so that the key finds them.
select memories.id
from memories
where memories.org_id = %(org_id)s
  and memories.id between rpad(%(digits)s, 32, '0')::uuid and rpad(%(digits)s, 32, 'f')::uuid
order by memories.id
limit 10;

-- name: memories_by_id -> Stated
-- These memories as far as they are visible, newest first; whoever asserted one only as far as known.
select
  memories.id, memories.kind, memories.content, memories.sensitivity, asserter.id as asserted_by,
  memories.recorded_at, rested.source_ids, rested.is_outdated, memories.superseded_by
from memories
left join participants as asserter
  on asserter.org_id = memories.org_id and asserter.id = memories.asserted_by
cross join lateral (
  select
    coalesce(
      array_agg(messages.id order by messages.sent_at, messages.native_order, messages.id), '{}'
    ) as source_ids,
    coalesce(bool_or(messages.edited_at > memories.recorded_at), false) as is_outdated
  from memory_sources
  join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
  where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = memories.id
) as rested
where memories.org_id = %(org_id)s and memories.id = any (%(memory_ids)s)
order by memories.id desc;

-- name: participants -> Named
-- Whom these memories name, as far as the viewer may know of them.
select memory_id, participant_id, role
from memory_participants
where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);

-- name: known_names -> KnownName
-- What the viewer may call these participants.
select id, name
from known_participants
where org_id = %(org_id)s and id = any (%(participant_ids)s);

-- name: lock_superseding
-- Only one at a time changes which memory takes whose place: two who did each for the other would make a circle.
select pg_advisory_xact_lock(hashtextextended('superseding ' || %(org_id)s::text, 0));

-- name: supersede
-- Put a memory in the place of another that still stands.
update memories
set superseded_by = %(id)s
where org_id = %(org_id)s and id = %(old_id)s and superseded_by is null and id <> %(id)s;

-- name: audience -> Heard
-- What decides who may see a memory: its sources, and where those that are for a whole room were said.
select
  messages.id as message_id, messages.room_id, messages.kind in ('message', 'system') as is_for_room,
  rooms.visibility = 'open' as is_open
from memory_sources
join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = %(memory_id)s;

-- name: worded -> Worded
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

-- name: predecessors -> MemoryKey
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
