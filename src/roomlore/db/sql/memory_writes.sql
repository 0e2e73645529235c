-- name: lock
-- Without a lock, two writers of the same memory would both find it missing and add it.
select pg_advisory_xact_lock(hashtextextended('memories ' || %(org_id)s::text, 0));

-- name: has_valid_sources
select not exists (
  select 1
  from unnest(%(message_ids)s::uuid[]) as source (id)
  where not exists (
    select 1
    from messages
    where messages.org_id = %(org_id)s
      and messages.id = source.id
      and messages.redacted_at is null
      -- an injected memory is no source
      and not messages.is_directed
  )
)
and not exists (
  select 1
  from unnest(%(participant_ids)s::uuid[]) as named (id)
  where not exists (
    select 1 from participants where participants.org_id = %(org_id)s and participants.id = named.id
  )
);

-- name: source_audiences
select messages.room_id, recipients(messages) as recipients, rooms.visibility = 'open' as is_open
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
where messages.org_id = %(org_id)s and messages.id = any (%(ids)s);

-- name: participants_by_id
select participants.id, coalesce(participant_merges.person_id, participants.id) as person_id, participants.kind = 'agent' as is_agent
from participants
left join participant_merges on participant_merges.org_id = participants.org_id and participant_merges.participant_id = participants.id
where participants.org_id = %(org_id)s and participants.id = any (%(ids)s);

-- name: is_sensitive
select exists (
  select 1
  from conversation_messages
  join conversations
    on conversations.org_id = conversation_messages.org_id and conversations.id = conversation_messages.conversation_id
  where conversation_messages.org_id = %(org_id)s
    and conversation_messages.message_id = any (%(ids)s)
    and conversations.sensitivity = 'sensitive'
);

-- name: inactive_match
-- Uses index: memory_sources_of_message
select memories.id, memories.valid_from, memories.confidence
from memory_sources
join memories on memories.org_id = memory_sources.org_id and memories.id = memory_sources.memory_id
where memory_sources.org_id = %(org_id)s
  and memory_sources.message_id = %(message_id)s
  and memories.dedup_scope = %(dedup_scope)s
  and case
    when memories.digest = %(digest)s then memories.status <> 'active'
    else
      memory_sources.extracted_by <> %(extractor)s::text
      and memories.kind = %(kind)s
      and int4range(memory_sources.quote_start, memory_sources.quote_end)
        && int4range(%(quote_start)s::integer, %(quote_end)s::integer)
  end
order by memories.digest = %(digest)s desc, memories.id
limit 1;

-- name: find_active_match
-- Uses index: memories_saying
select id, valid_from, confidence
from memories
where org_id = %(org_id)s and dedup_scope = %(dedup_scope)s and digest = %(digest)s and status = 'active';

-- name: has_same_audience
-- Members may join and leave between two messages of a room.
select
  array_agg(distinct message.audience order by message.audience) filter (where message.is_old)
    is not distinct from array_agg(distinct message.audience order by message.audience) filter (where message.is_new)
from (
  select
    messages.id = any (%(message_ids)s) as is_new,
    exists (
      select 1
      from memory_sources
      where memory_sources.org_id = messages.org_id
        and memory_sources.memory_id = %(memory_id)s
        and memory_sources.message_id = messages.id
    ) as is_old,
    case
      when messages.kind = 'whisper' then recipients(messages)::text
      when rooms.visibility = 'open' and %(sensitivity)s = 'normal' then 'all'
      else (
        select md5(string_agg(memberships.participant_id::text, ' ' order by memberships.participant_id))
        from memberships
        where memberships.org_id = messages.org_id
          and memberships.room_id = messages.room_id
          and memberships.joined_at <= messages.sent_at
          and (memberships.left_at is null or messages.sent_at < memberships.left_at)
      )
    end as audience
  from messages
  join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
  where messages.org_id = %(org_id)s
    and messages.id in (
      select unnest(%(message_ids)s::uuid[])
      union
      select memory_sources.message_id
      from memory_sources
      where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = %(memory_id)s
    )
) as message;

-- name: add_memory
insert into memories (
  org_id, id, kind, title, content, importance, confidence, sensitivity, audience, asserted_by, asserted_in, recorded_at,
  valid_from, task_id, metadata, dedup_scope, digest, is_conversation_sensitive
)
values (
  %(org_id)s, %(id)s, %(kind)s, %(title)s, %(content)s, %(importance)s, %(confidence)s, %(sensitivity)s, %(audience)s,
  %(asserted_by)s, %(asserted_in)s, %(recorded_at)s, %(valid_from)s, %(task_id)s, %(metadata)s, %(dedup_scope)s,
  %(digest)s, %(is_conversation_sensitive)s
);

-- name: add_rows
insert into memories (
  org_id, id, kind, title, content, importance, confidence, sensitivity, audience, asserted_by, recorded_at, valid_from,
  task_id, metadata, dedup_scope, digest
)
select
  %(org_id)s, id, kind, title, content, importance, confidence, sensitivity, audience, asserted_by, recorded_at,
  valid_from, task_id, metadata::jsonb, dedup_scope, digest
from unnest(
  %(id)s::uuid[], %(kind)s::text[], %(title)s::text[], %(content)s::text[], %(importance)s::real[],
  %(confidence)s::real[], %(sensitivity)s::text[], %(audience)s::text[], %(asserted_by)s::uuid[],
  %(recorded_at)s::timestamptz[], %(valid_from)s::timestamptz[], %(task_id)s::text[], %(metadata_text)s::text[],
  %(dedup_scope)s::text[], %(digest)s::text[]
) as added (
  id, kind, title, content, importance, confidence, sensitivity, audience, asserted_by, recorded_at, valid_from,
  task_id, metadata, dedup_scope, digest
);

-- name: add_roles_of
insert into memory_participants (org_id, memory_id, participant_id, role)
select %(org_id)s, memory_id, participant_id, role
from unnest(%(memory_id)s::uuid[], %(participant_id)s::uuid[], %(role)s::text[]) as named (memory_id, participant_id, role);

-- name: add_tags_of
insert into memory_tags (org_id, memory_id, tag)
select %(org_id)s, memory_id, tag
from unnest(%(memory_id)s::uuid[], %(tag)s::text[]) as added (memory_id, tag);

-- name: add_sources
insert into memory_sources (org_id, memory_id, message_id, quote_start, quote_end, extracted_by)
select %(org_id)s, %(memory_id)s, message_id, quote_start, quote_end, %(extractor)s
from unnest(%(message_id)s::uuid[], %(quote_start)s::integer[], %(quote_end)s::integer[])
  as source (message_id, quote_start, quote_end)
on conflict (org_id, memory_id, message_id) do nothing;

-- name: add_roles
insert into memory_participants (org_id, memory_id, participant_id, role)
select %(org_id)s, %(memory_id)s, participant_id, role
from unnest(%(roles_2)s::uuid[], %(roles_1)s::text[]) as named (participant_id, role)
on conflict (org_id, memory_id, participant_id, role) do nothing;

-- name: add_tags
insert into memory_tags (org_id, memory_id, tag)
select %(org_id)s, %(memory_id)s, tag
from unnest(%(tags)s::text[]) as added (tag)
on conflict (org_id, memory_id, tag) do nothing;

-- name: roles
select role, participant_id from memory_participants where org_id = %(org_id)s and memory_id = %(memory_id)s;

-- name: demote_authors
update memory_participants
set role = 'involved'
where org_id = %(org_id)s
  and memory_id = %(memory_id)s
  and role = 'author'
  and not exists (
    select 1
    from memory_participants as other
    where other.org_id = %(org_id)s
      and other.memory_id = %(memory_id)s
      and other.participant_id = memory_participants.participant_id
      and other.role = 'involved'
  );

-- name: reinforce_memory
update memories
set
  confidence = %(confidence)s,
  importance = greatest(importance, %(importance)s),
  valid_from = least(valid_from, %(valid_from)s),
  recorded_at = greatest(recorded_at, %(recorded_at)s),
  task_id = coalesce(task_id, %(task_id)s)
where org_id = %(org_id)s and id = %(memory_id)s;

-- name: add_metadata
update memories
set metadata = %(metadata)s::jsonb || metadata
where org_id = %(org_id)s and id = %(memory_id)s and %(metadata)s::jsonb || metadata <> metadata;

-- name: near_memories
-- Uses index: memories_saying
select fresh.id, other.id
from memories as fresh
cross join lateral (
  select recent.id
  from (
    select memories.id, memories.words, memories.valid_from
    from memories
    where memories.org_id = fresh.org_id
      and memories.dedup_scope = fresh.dedup_scope
      and memories.archived_at is null
      and memories.id <> fresh.id
    order by memories.valid_from desc, memories.id
    limit 500
  ) as recent
  where exists (
    select 1
    from memory_sources
    where memory_sources.org_id = %(org_id)s
      and memory_sources.memory_id = recent.id
      and memory_sources.extracted_by is not null
  )
  order by
    (
      select count(*)
      from unnest(tsvector_to_array(recent.words)) as one (lexeme)
      where one.lexeme = any (tsvector_to_array(fresh.words))
    ) desc,
    recent.valid_from desc,
    recent.id
  limit %(most)s
) as other
where fresh.org_id = %(org_id)s and fresh.id = any (%(ids)s) and fresh.archived_at is null;

-- name: statements
select
  memories.id,
  coalesce(quoted.words, memories.content) as words,
  array(
    select named.participant_id
    from memory_participants as named
    where named.org_id = memories.org_id and named.memory_id = memories.id and named.role = 'author'
  ) as author_ids,
  coalesce(newest.sent_at, memories.valid_from) as said_at,
  coalesce(newest.sequence, 0) as sequence,
  coalesce(newest.quote_start, 0) as quote_start,
  case
    when author.is_own or not author.is_stated then 3
    when author.by_people then 2
    else 1
  end as standing
from memories
left join lateral (
  select
    string_agg(
      substr(messages.body, memory_sources.quote_start + 1, memory_sources.quote_end - memory_sources.quote_start),
      ' ' order by messages.sent_at, messages.sequence, messages.id
    ) as words
  from memory_sources
  join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
  where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
) as quoted on true
left join lateral (
  select messages.sent_at, messages.sequence, memory_sources.quote_start
  from memory_sources
  join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
  where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
  order by messages.sent_at desc, messages.sequence desc, messages.id desc
  limit 1
) as newest on true
cross join lateral (
  select
    coalesce(bool_or(named.participant_id = any (subjects.ids)), false) as is_own,
    count(*) > 0 as is_stated,
    coalesce(bool_or(participants.kind <> 'agent'), false) as by_people
  from memory_participants as named
  join participants on participants.org_id = named.org_id and participants.id = named.participant_id
  cross join lateral (
    select array(
      select subject.participant_id
      from memory_participants as subject
      where subject.org_id = named.org_id and subject.memory_id = named.memory_id and subject.role = 'subject'
    ) as ids
  ) as subjects
  where named.org_id = memories.org_id and named.memory_id = memories.id and named.role = 'author'
) as author
where memories.org_id = %(org_id)s and memories.id = any (%(ids)s);

-- name: supersede_scoped
-- A successor that was said between a memory and its present successor takes the place of the present one, if no person
-- chose that.
update memories
set superseded_by = successor.id
from memories as successor
where memories.org_id = %(org_id)s
  and memories.id = %(old_id)s
  and memories.archived_at is null
  and successor.org_id = memories.org_id
  and successor.id = %(by)s
  and successor.id <> memories.id
  and successor.archived_at is null
  and successor.dedup_scope = memories.dedup_scope
  and (
    memories.superseded_by is null
    or exists (
      select 1
      from memories as present
      where present.org_id = memories.org_id
        and present.id = memories.superseded_by
        and present.valid_from > successor.valid_from
        and (
          select coalesce(bool_and(memory_sources.extracted_by is not null), false)
          from memory_sources
          where memory_sources.org_id = present.org_id and memory_sources.memory_id = present.id
        )
    )
  )
  and not exists (
    select 1
    from supersession_overrides
    where supersession_overrides.org_id = memories.org_id
      and supersession_overrides.memory_id = memories.id
      and supersession_overrides.digest = successor.digest
  );

-- name: supersession_overrides
select memory_id, digest from supersession_overrides where org_id = %(org_id)s and memory_id = any (%(ids)s);

-- name: supersede_active
update memories
set superseded_by = %(by)s
where org_id = %(org_id)s and id = %(old_id)s and status = 'active' and id <> %(by)s;

-- name: archive_active
update memories
set archived_at = %(at)s
where org_id = %(org_id)s and id = %(memory_id)s and status = 'active';

-- name: restore_inactive
update memories
set archived_at = null, superseded_by = null
where org_id = %(org_id)s and id = %(memory_id)s and status <> 'active';

-- name: add_override
-- What superseded its successor does not supersede it either.
with recursive successors (id, superseded_by, digest) as (
  select memories.id, memories.superseded_by, memories.digest
  from memories
  where memories.org_id = %(org_id)s and memories.id = %(beside)s
  union
  select memories.id, memories.superseded_by, memories.digest
  from successors
  join memories on memories.org_id = %(org_id)s and memories.id = successors.superseded_by
)
insert into supersession_overrides (org_id, memory_id, digest)
select distinct %(org_id)s::uuid, %(memory_id)s::uuid, successors.digest
from successors
on conflict (org_id, memory_id, digest) do nothing;

-- name: remove_sources
-- Uses index: memory_sources_of_message
delete from memory_sources
using memories
where memory_sources.org_id = %(org_id)s
  and memory_sources.message_id = any (%(message_ids)s)
  and memory_sources.extracted_by = %(extractor)s
  and memories.org_id = %(org_id)s
  and memories.id = memory_sources.memory_id
  and not exists (
    select 1
    from unnest(%(kept_1)s::uuid[], %(kept_2)s::uuid[]) as kept (memory_id, message_id)
    where kept.memory_id = memory_sources.memory_id and kept.message_id = memory_sources.message_id
  )
returning memory_sources.memory_id;

-- name: orphans
select memories.id
from memories
where memories.org_id = %(org_id)s
  and memories.id = any (%(ids)s)
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = memories.id
  );

-- name: remove_asserter
update memories set asserted_by = null where org_id = %(org_id)s and asserted_by = any (%(ids)s)
returning id;

-- name: memories_naming
select
  memories.id, memories.sensitivity, memories.audience, memories.asserted_by, memories.dedup_scope,
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
      and memory_participants.participant_id = any (%(ids)s)
      and memory_participants.role in ('subject', 'perspective')
  )
order by memories.id;

-- name: set_scopes
update memories
set dedup_scope = change.dedup_scope
from unnest(%(circles_1)s::uuid[], %(circles_2)s::text[]) as change (id, dedup_scope)
where memories.org_id = %(org_id)s and memories.id = change.id;

-- name: restore_in_scopes
-- Only memories that no person superseded and whose successor has another scope now.
update memories
set superseded_by = null
from memories as successor
where memories.org_id = %(org_id)s
  and memories.id = any (%(ids)s)
  and successor.org_id = memories.org_id
  and successor.id = memories.superseded_by
  and successor.dedup_scope <> memories.dedup_scope
  and (
    successor.digest = memories.digest
    -- or the successor was extracted
    or (
      select coalesce(bool_and(memory_sources.extracted_by is not null), false)
      from memory_sources
      where memory_sources.org_id = successor.org_id and memory_sources.memory_id = successor.id
    )
  );

-- name: supersede_duplicates
update memories
set superseded_by = newest.id
from (
  select dedup_scope, digest, (array_agg(id order by valid_from desc, id desc))[1] as id
  from memories
  where org_id = %(org_id)s and dedup_scope = any (%(circles)s) and status = 'active'
  group by dedup_scope, digest
  having count(*) > 1
) as newest
where memories.org_id = %(org_id)s
  and memories.dedup_scope = newest.dedup_scope
  and memories.digest = newest.digest
  and memories.status = 'active'
  and memories.id <> newest.id
returning memories.id;
