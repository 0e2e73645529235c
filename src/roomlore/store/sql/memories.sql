-- Memories: what was drawn from messages or asserted, what it rests on and whom it names.

-- name: newest -> MemoryKey
-- The newest memories that the viewer may see, newest first, as far as they are meant.
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (%(statuses)s::text[] is null or memories.status = any (%(statuses)s::text[]))
  and (%(kinds)s::text[] is null or memories.kind = any (%(kinds)s::text[]))
  and (%(task_id)s::text is null or memories.task_id = %(task_id)s::text)
  and (%(since)s::timestamptz is null or memories.valid_from >= %(since)s::timestamptz)
  and (
    %(as_of)s::timestamptz is null
    or (
      memories.valid_from <= %(as_of)s::timestamptz
      and memories.archived_at is null
      and (
        memories.superseded_by is null
        or exists (
          select 1
          from memories as later
          where later.org_id = memories.org_id
            and later.id = memories.superseded_by
            and later.valid_from > %(as_of)s::timestamptz
        )
      )
    )
  )
  and (
    %(tags)s::text[] is null
    or exists (
      select 1
      from memory_tags
      where memory_tags.org_id = memories.org_id
        and memory_tags.memory_id = memories.id
        and memory_tags.tag = any (%(tags)s::text[])
    )
  )
  and (
    %(room_ids)s::uuid[] is null
    or memories.asserted_in = any (%(room_ids)s::uuid[])
    or exists (
      select 1
      from memory_sources
      join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
      where memory_sources.org_id = memories.org_id
        and memory_sources.memory_id = memories.id
        and messages.room_id = any (%(room_ids)s::uuid[])
    )
  )
  and not exists (
    select 1
    from (
      values
        ('subject', %(subject_ids)s::uuid[]),
        ('author', %(author_ids)s::uuid[]),
        ('perspective', %(perspective_ids)s::uuid[])
    ) as asked (role, ids)
    where asked.ids is not null
      and not exists (
        select 1
        from memory_participants
        where memory_participants.org_id = memories.org_id
          and memory_participants.memory_id = memories.id
          and memory_participants.role = asked.role
          and memory_participants.participant_id = any (asked.ids)
      )
  )
order by memories.id desc
limit %(limit)s;

-- name: resting_on -> MemoryKey
-- The newest memories that rest on a message.
-- Uses index: memory_sources_of_message
select memory_id as id
from memory_sources
where org_id = %(org_id)s and message_id = %(message_id)s
order by memory_id desc
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
-- These memories as far as they are visible, newest first; whoever asserted one, and where, only as far as known.
select
  memories.id, memories.kind, memories.title, memories.content, memories.importance, memories.confidence,
  memories.sensitivity, memories.status, rested.extractor, asserter.id as asserted_by, held.id as asserted_in,
  memories.recorded_at, memories.valid_from, rested.source_ids, rested.quote_starts, rested.quote_ends,
  array(
    select memory_tags.tag
    from memory_tags
    where memory_tags.org_id = memories.org_id and memory_tags.memory_id = memories.id
    order by memory_tags.tag
  ) as tags,
  memories.task_id, memories.slot, rested.is_outdated, memories.superseded_by
from memories
left join participants as asserter
  on asserter.org_id = memories.org_id and asserter.id = memories.asserted_by
left join rooms as held on held.org_id = memories.org_id and held.id = memories.asserted_in
cross join lateral (
  select
    coalesce(array_agg(one.message_id order by one.sent_at, one.native_order, one.message_id), '{}') as source_ids,
    coalesce(array_agg(one.quote_start order by one.sent_at, one.native_order, one.message_id), '{}') as quote_starts,
    coalesce(array_agg(one.quote_end order by one.sent_at, one.native_order, one.message_id), '{}') as quote_ends,
    min(one.drawn_by) as extractor,
    coalesce(bool_or(one.edited_at > memories.recorded_at), false) as is_outdated
  from (
    select
      memory_sources.message_id, memory_sources.quote_start, memory_sources.quote_end, memory_sources.drawn_by,
      messages.sent_at, messages.native_order, messages.edited_at
    from memory_sources
    join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = memories.id
  ) as one
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
