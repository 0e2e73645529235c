-- What is remembered anew: whether it is there already, what it rests on, what it takes the place of.

-- name: lock
-- Only one at a time changes which memories an org has: two who came with the same would both find it missing.
select pg_advisory_xact_lock(hashtextextended('memories ' || %(org_id)s::text, 0));

-- name: missing -> MissingSource
-- Those of these messages that have lost their words or are not there, and of these participants that are not.
select asked.id
from unnest(%(message_ids)s::uuid[]) as asked (id)
where not exists (
  select 1
  from messages
  where messages.org_id = %(org_id)s
    and messages.id = asked.id
    and messages.redacted_at is null
    -- what was recalled for somebody is nobody's statement
    and not messages.is_directed
)
union all
select asked.id
from unnest(%(participant_ids)s::uuid[]) as asked (id)
where not exists (
  select 1 from participants where participants.org_id = %(org_id)s and participants.id = asked.id
);

-- name: heard -> SourceAudience
-- Whom messages are for: everybody in a room, or some by name.
select messages.room_id, hearers(messages) as hearers, rooms.visibility = 'open' as is_open
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
where messages.org_id = %(org_id)s and messages.id = any (%(message_ids)s);

-- name: people -> ParticipantRef
-- Who these participants are: accounts of one person are one.
select participants.id, coalesce(merges.person_id, participants.id) as person_id, participants.kind = 'agent' as is_agent
from participants
left join merges on merges.org_id = participants.org_id and merges.participant_id = participants.id
where participants.org_id = %(org_id)s and participants.id = any (%(participant_ids)s);

-- name: hushed -> FlagRow
-- Whether one of these messages is in a conversation that is only for those who were there.
select exists (
  select 1
  from placements
  join conversations
    on conversations.org_id = placements.org_id and conversations.id = placements.conversation_id
  where placements.org_id = %(org_id)s
    and placements.message_id = any (%(message_ids)s)
    and conversations.sensitivity = 'sensitive'
) as is_so;

-- name: settled -> MatchingMemory
-- The memory of these very words that does not stand any more, whatever became of it, or that was drawn from them by
-- something else.
-- Uses index: memory_sources_of_message
select memories.id, memories.valid_from, memories.confidence
from memory_sources
join memories on memories.org_id = memory_sources.org_id and memories.id = memory_sources.memory_id
where memory_sources.org_id = %(org_id)s
  and memory_sources.message_id = %(message_id)s
  and memories.circle = %(circle)s
  and case
    when memories.digest = %(digest)s then memories.status <> 'active'
    else
      memory_sources.drawn_by <> %(drawn_by)s::text
      and memories.kind = %(kind)s
      and int4range(memory_sources.quote_start, memory_sources.quote_end)
        && int4range(%(quote_start)s::integer, %(quote_end)s::integer)
  end
order by memories.digest = %(digest)s desc, memories.id
limit 1;

-- name: same -> MatchingMemory
-- The memory that stands and says the same of the same for the same.
-- Uses index: memories_saying
select id, valid_from, confidence
from memories
where org_id = %(org_id)s and circle = %(circle)s and digest = %(digest)s and status = 'active';

-- name: heard_alike -> FlagRow
-- Whether the same people could hear what a memory and what a statement rest on: members come and go between two
-- messages of a room for them.
select
  array_agg(distinct said.heard_by order by said.heard_by) filter (where said.is_old)
    is not distinct from array_agg(distinct said.heard_by order by said.heard_by) filter (where said.is_new) as is_so
from (
  select
    messages.id = any (%(message_ids)s) as is_new,
    exists (
      select 1
      from memory_sources
      where memory_sources.org_id = messages.org_id
        and memory_sources.memory_id = %(id)s
        and memory_sources.message_id = messages.id
    ) as is_old,
    case
      when messages.kind = 'whisper' then hearers(messages)::text
      when rooms.visibility = 'open' and %(sensitivity)s = 'normal' then 'all'
      else (
        select md5(string_agg(memberships.participant_id::text, ' ' order by memberships.participant_id))
        from memberships
        where memberships.org_id = messages.org_id
          and memberships.room_id = messages.room_id
          and memberships.joined_at <= messages.sent_at
          and (memberships.left_at is null or messages.sent_at < memberships.left_at)
      )
    end as heard_by
  from messages
  join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
  where messages.org_id = %(org_id)s
    and messages.id in (
      select unnest(%(message_ids)s::uuid[])
      union
      select memory_sources.message_id
      from memory_sources
      where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = %(id)s
    )
) as said;

-- name: add
-- Add a memory.
insert into memories (
  org_id, id, kind, title, content, importance, confidence, sensitivity, audience, asserted_by, asserted_in, recorded_at,
  valid_from, slot, task_id, metadata, circle, digest, is_hushed
)
values (
  %(org_id)s, %(id)s, %(kind)s, %(title)s, %(content)s, %(importance)s, %(confidence)s, %(sensitivity)s, %(audience)s,
  %(asserted_by)s, %(asserted_in)s, %(recorded_at)s, %(valid_from)s, %(slot)s, %(task_id)s, %(metadata)s::jsonb, %(circle)s,
  %(digest)s, %(is_hushed)s
);

-- name: add_sources
-- Say which words a memory rests on, as far as it was not known.
insert into memory_sources (org_id, memory_id, message_id, quote_start, quote_end, drawn_by)
select %(org_id)s, %(id)s, message_id, quote_start, quote_end, %(drawn_by)s
from unnest(%(message_id)s::uuid[], %(quote_start)s::integer[], %(quote_end)s::integer[])
  as stated (message_id, quote_start, quote_end)
on conflict (org_id, memory_id, message_id) do nothing;

-- name: add_participants
-- Say whom a memory names, and in which role, as far as it was not known.
insert into memory_participants (org_id, memory_id, participant_id, role)
select %(org_id)s, %(id)s, participant_id, role
from unnest(%(participant_ids)s::uuid[], %(roles)s::text[]) as stated (participant_id, role)
on conflict (org_id, memory_id, participant_id, role) do nothing;

-- name: add_tags
-- Put tags on a memory, as far as it has not got them.
insert into memory_tags (org_id, memory_id, tag)
select %(org_id)s, %(id)s, tag
from unnest(%(tags)s::text[]) as stated (tag)
on conflict (org_id, memory_id, tag) do nothing;

-- name: named -> RoleRow
-- Whom a memory names.
select participant_id, role from memory_participants where org_id = %(org_id)s and memory_id = %(id)s;

-- name: involve
-- Those who stated a memory only said the like of it: who is meant themselves states it.
update memory_participants
set role = 'involved'
where org_id = %(org_id)s
  and memory_id = %(id)s
  and role = 'author'
  and not exists (
    select 1
    from memory_participants as held
    where held.org_id = %(org_id)s
      and held.memory_id = %(id)s
      and held.participant_id = memory_participants.participant_id
      and held.role = 'involved'
  );

-- name: strengthen
-- A memory was stated once more.
update memories
set
  confidence = %(confidence)s,
  importance = greatest(importance, %(importance)s),
  valid_from = least(valid_from, %(valid_from)s),
  recorded_at = greatest(recorded_at, %(recorded_at)s),
  task_id = coalesce(task_id, %(task_id)s)
where org_id = %(org_id)s and id = %(id)s;

-- name: enrich
-- Keep with a memory what else it was given with; what it was given with first stays.
update memories
set metadata = %(metadata)s::jsonb || metadata
where org_id = %(org_id)s and id = %(id)s and %(metadata)s::jsonb || metadata <> metadata;

-- name: values -> AttributeValue
-- What a slot of a circle was said to be, as far as it stands or only others of these took its place.
select
  memories.id, memories.digest, memories.recorded_at, memories.superseded_by,
  coalesce(newest.sent_at, memories.valid_from) as said_at,
  coalesce(newest.native_order, 0) as native_order,
  coalesce(newest.quote_start, 0) as quote_start,
  case
    when told.is_own or not told.is_stated then 3
    when told.by_people then 2
    else 1
  end as standing
from memories
left join lateral (
  select messages.sent_at, messages.native_order, memory_sources.quote_start
  from memory_sources
  join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
  where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
  order by messages.sent_at desc, messages.native_order desc, messages.id desc
  limit 1
) as newest on true
cross join lateral (
  select
    coalesce(bool_or(author.participant_id = any (subjects.ids)), false) as is_own,
    count(*) > 0 as is_stated,
    coalesce(bool_or(participants.kind <> 'agent'), false) as by_people
  from memory_participants as author
  join participants on participants.org_id = author.org_id and participants.id = author.participant_id
  cross join lateral (
    select array(
      select subject.participant_id
      from memory_participants as subject
      where subject.org_id = author.org_id and subject.memory_id = author.memory_id and subject.role = 'subject'
    ) as ids
  ) as subjects
  where author.org_id = memories.org_id and author.memory_id = memories.id and author.role = 'author'
) as told
where memories.org_id = %(org_id)s
  and memories.circle = %(circle)s
  and memories.slot = %(slot)s
  and memories.archived_at is null
  and (
    memories.superseded_by is null
    or exists (
      select 1
      from memories as later
      where later.org_id = memories.org_id
        and later.id = memories.superseded_by
        and later.circle = memories.circle
        and later.slot = memories.slot
        and later.archived_at is null
    )
  );

-- name: partings -> SupersessionOverride
-- Which memories stand beside what has these digests, because a person said so.
select memory_id, digest from partings where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);

-- name: succeed
-- Say what took the place of memories, or that they stand.
update memories
set superseded_by = told.superseded_by
from unnest(%(id)s::uuid[], %(superseded_by)s::uuid[]) as told (id, superseded_by)
where memories.org_id = %(org_id)s and memories.id = told.id;

-- name: supersede
-- Put a memory in the place of another that still stands.
update memories
set superseded_by = %(id)s
where org_id = %(org_id)s and id = %(old_id)s and status = 'active' and id <> %(id)s;

-- name: archive
-- Put a memory aside that stands.
update memories
set archived_at = %(at)s
where org_id = %(org_id)s and id = %(id)s and status = 'active';

-- name: restore
-- Let a memory stand again that was put aside or superseded.
update memories
set archived_at = null, superseded_by = null
where org_id = %(org_id)s and id = %(id)s and status <> 'active';

-- name: part
-- Note that a memory stands beside what has a digest.
insert into partings (org_id, memory_id, digest)
select %(org_id)s, %(id)s, later.digest
from memories as later
where later.org_id = %(org_id)s and later.id = %(later_id)s
on conflict (org_id, memory_id, digest) do nothing;

-- name: loosen -> DetachedMemory
-- What was drawn from these messages and is not drawn any more rests on them no longer.
-- Uses index: memory_sources_of_message
delete from memory_sources
using memories
where memory_sources.org_id = %(org_id)s
  and memory_sources.message_id = any (%(message_ids)s)
  and memory_sources.drawn_by = %(drawn_by)s
  and memories.org_id = %(org_id)s
  and memories.id = memory_sources.memory_id
  and not exists (
    select 1
    from unnest(%(kept_ids)s::uuid[], %(kept_message_ids)s::uuid[]) as kept (memory_id, message_id)
    where kept.memory_id = memory_sources.memory_id and kept.message_id = memory_sources.message_id
  )
returning memory_sources.memory_id;

-- name: baseless -> DetachedMemory
-- Those of these memories that were drawn and rest on nothing any more.
select memories.id as memory_id
from memories
where memories.org_id = %(org_id)s
  and memories.id = any (%(memory_ids)s)
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = memories.id
  );

-- name: disown -> DetachedMemory
-- Keep what participants asserted, as nobody's.
update memories set asserted_by = null where org_id = %(org_id)s and asserted_by = any (%(participant_ids)s)
returning id as memory_id;

-- name: naming -> ScopedMemory
-- The memories that are about these participants, or were seen by them.
select
  memories.id, memories.sensitivity, memories.audience, memories.asserted_by, memories.circle, memories.slot,
  array(
    select memory_sources.message_id
    from memory_sources
    where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
  ) as source_ids
from memories
where memories.org_id = %(org_id)s
  and memories.id in (
    select memory_participants.memory_id
    from memory_participants
    where memory_participants.org_id = %(org_id)s
      and memory_participants.participant_id = any (%(participant_ids)s)
      and memory_participants.role in ('subject', 'perspective')
  )
order by memories.id;

-- name: recircle
-- Say anew of whom and for whom memories are.
update memories
set circle = told.circle
from unnest(%(id)s::uuid[], %(circle)s::text[]) as told (id, circle)
where memories.org_id = %(org_id)s and memories.id = told.id;

-- name: unlink
-- Those of these memories stand again whose place was taken unasked by what is of another circle now.
update memories
set superseded_by = null
from memories as later
where memories.org_id = %(org_id)s
  and memories.id = any (%(memory_ids)s)
  and later.org_id = memories.org_id
  and later.id = memories.superseded_by
  and later.circle <> memories.circle
  and (
    later.slot = memories.slot
    or later.digest = memories.digest
    -- what nobody asserted
    or (
      select coalesce(bool_and(memory_sources.drawn_by is not null), false)
      from memory_sources
      where memory_sources.org_id = later.org_id and memory_sources.memory_id = later.id
    )
  );

-- name: link_same -> DetachedMemory
-- Of memories of these circles that stand and say the same, let the newest stand.
update memories
set superseded_by = newest.id
from (
  select circle, digest, (array_agg(id order by valid_from desc, id desc))[1] as id
  from memories
  where org_id = %(org_id)s and circle = any (%(circles)s) and status = 'active'
  group by circle, digest
  having count(*) > 1
) as newest
where memories.org_id = %(org_id)s
  and memories.circle = newest.circle
  and memories.digest = newest.digest
  and memories.status = 'active'
  and memories.id <> newest.id
returning memories.id as memory_id;
