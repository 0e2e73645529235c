-- Statements whose name begins with `export` return lines of JSON. Null means no restriction for `room_id`, `author_ids`,
-- `participant_ids` and `memory_ids`. Generated columns and the org are left out.

-- name: memories_of_room
-- that rest on the messages of the room alone, or were entered there
select memories.id
from memories
where memories.org_id = %(org_id)s
  and case
    when exists (
      select 1
      from memory_sources
      where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
    )
    then not exists (
      select 1
      from memory_sources
      join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
      where memory_sources.org_id = memories.org_id
        and memory_sources.memory_id = memories.id
        and messages.room_id <> %(room_id)s
    )
    else memories.asserted_in = %(room_id)s
  end;

-- name: memories_of_persons
-- that they stated or observed, or that are about them
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (
    memories.asserted_by = any (%(person_ids)s)
    or exists (
      select 1
      from memory_participants
      where memory_participants.org_id = memories.org_id
        and memory_participants.memory_id = memories.id
        and memory_participants.participant_id = any (%(person_ids)s)
        and memory_participants.role <> 'involved'
    )
  );

-- name: participants_of_room
select author_id from messages where org_id = %(org_id)s and room_id = %(room_id)s
union
select participant_id from memberships where org_id = %(org_id)s and room_id = %(room_id)s
union
select participant_id from room_activity where org_id = %(org_id)s and room_id = %(room_id)s
union
select message_audience.participant_id
from message_audience
join messages on messages.org_id = message_audience.org_id and messages.id = message_audience.message_id
where message_audience.org_id = %(org_id)s and messages.room_id = %(room_id)s
union
select unnest(array[interactions.agent_id, interactions.participant_id])
from interactions
join conversations
  on conversations.org_id = interactions.org_id and conversations.id = interactions.conversation_id
where interactions.org_id = %(org_id)s and conversations.room_id = %(room_id)s
union
select decided_by
from privacy_requests
where org_id = %(org_id)s and room_id = %(room_id)s and decided_by is not null;

-- name: participants_of_memories
select participant_id from memory_participants where org_id = %(org_id)s and memory_id = any (%(memory_ids)s)
union
select asserted_by
from memories
where org_id = %(org_id)s and id = any (%(memory_ids)s) and asserted_by is not null;

-- name: participants_of_persons
-- whom they whispered to, and who decided on their requests
select unnest(%(person_ids)s::uuid[])
union
select message_audience.participant_id
from message_audience
join messages on messages.org_id = message_audience.org_id and messages.id = message_audience.message_id
where message_audience.org_id = %(org_id)s and messages.author_id = any (%(person_ids)s)
union
select decided_by
from privacy_requests
where org_id = %(org_id)s and author_id = any (%(person_ids)s) and decided_by is not null;

-- name: export_participants
-- Only the operator knows the newest name: others get the first.
select (
  jsonb_build_object('record', 'participant')
  || (to_jsonb(participants) - 'org_id')
  || case
    when %(author_ids)s::uuid[] is null or participants.id = any (%(author_ids)s) then '{}'::jsonb
    else jsonb_build_object('name', participants.first_name, 'named_at', participants.first_named_at)
  end
  || jsonb_build_object(
    'accounts', (
      select coalesce(jsonb_agg(
        to_jsonb(platform_accounts) - '{org_id,participant_id}'::text[]
        order by platform_accounts.platform, platform_accounts.account_id, platform_accounts.persona
      ), '[]')
      from platform_accounts
      where platform_accounts.org_id = participants.org_id and platform_accounts.participant_id = participants.id
    ),
    'merges', (
      select coalesce(jsonb_agg(to_jsonb(participant_merges) - '{org_id,participant_id}'::text[]), '[]')
      from participant_merges
      where participant_merges.org_id = participants.org_id and participant_merges.participant_id = participants.id
    )
  )
)::text
from participants
where participants.org_id = %(org_id)s
  and (%(participant_ids)s::uuid[] is null or participants.id = any (%(participant_ids)s))
order by participants.id;

-- name: export_stated_trust
-- How far agents trust others, as stated. Only of the whole org: it belongs to no room, and others do not see it.
select (jsonb_build_object('record', 'stated_trust') || (to_jsonb(stated_trust) - 'org_id'))::text
from stated_trust
where org_id = %(org_id)s and %(room_id)s::uuid is null and %(author_ids)s::uuid[] is null
order by agent_id, participant_id;

-- name: export_rooms
-- Rooms with their members and erased times. A person's export has only their own memberships.
select (
  jsonb_build_object('record', 'room')
  || (to_jsonb(rooms) - 'org_id')
  || jsonb_build_object(
    'members', (
      select coalesce(jsonb_agg(
        to_jsonb(memberships) - '{org_id,room_id}'::text[]
        order by memberships.participant_id, memberships.joined_at
      ), '[]')
      from memberships
      where memberships.org_id = rooms.org_id
        and memberships.room_id = rooms.id
        and (%(author_ids)s::uuid[] is null or memberships.participant_id = any (%(author_ids)s))
    ),
    'activity', (
      select coalesce(jsonb_agg(
        to_jsonb(room_activity) - '{org_id,room_id}'::text[] order by room_activity.participant_id
      ), '[]')
      from room_activity
      where room_activity.org_id = rooms.org_id
        and room_activity.room_id = rooms.id
        and (%(author_ids)s::uuid[] is null or room_activity.participant_id = any (%(author_ids)s))
    ),
    'erased_ranges', (
      select coalesce(jsonb_agg(
        to_jsonb(erased_ranges) - '{org_id,room_id}'::text[] order by erased_ranges.since, erased_ranges.until
      ), '[]')
      from erased_ranges
      where erased_ranges.org_id = rooms.org_id
        and erased_ranges.room_id = rooms.id
        and %(author_ids)s::uuid[] is null
    )
  )
)::text
from rooms
where rooms.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or rooms.id = %(room_id)s)
  and (
    %(author_ids)s::uuid[] is null
    or exists (
      select 1
      from messages
      where messages.org_id = rooms.org_id
        and messages.room_id = rooms.id
        and messages.author_id = any (%(author_ids)s)
    )
    or exists (
      select 1
      from memberships
      where memberships.org_id = rooms.org_id
        and memberships.room_id = rooms.id
        and memberships.participant_id = any (%(author_ids)s)
    )
    or exists (
      select 1
      from memories
      where memories.org_id = rooms.org_id
        and memories.asserted_in = rooms.id
        and memories.id = any (%(memory_ids)s)
    )
  )
order by rooms.id;

-- name: export_messages
-- The keys of `roomlore.message/1`, and the rest of the row. The platform's own record and facts are for operators.
select (
  jsonb_build_object(
    'record', 'message',
    'platform', rooms.platform,
    'room', rooms.external_id,
    'id', messages.external_id,
    'author', jsonb_build_object(
      'id', account.account_id,
      'name', messages.author_name,
      'kind', messages.author_kind,
      'persona', account.persona
    ),
    'kind', messages.kind,
    'text', messages.body,
    'sent_at', messages.sent_at,
    'edited_at', messages.edited_at,
    'deleted', messages.redacted_at is not null,
    'mentions', messages.mentions,
    'attachments', messages.attachments,
    'reactions', messages.reactions,
    'metadata', case
      when %(author_ids)s::uuid[] is null then messages.metadata else messages.metadata - 'platform'
    end,
    -- whether the message model read it
    'is_read', %(author_ids)s::uuid[] is null and not exists (
      select 1
      from work_queue
      where work_queue.org_id = messages.org_id and work_queue.queue = 'read' and work_queue.subject_id = messages.id
    ),
    'row', to_jsonb(messages)
    - '{org_id,external_id,author_name,author_kind,kind,body,sent_at,edited_at,mentions,attachments}'::text[]
    - '{reactions,metadata,words}'::text[]
    || case
      when %(author_ids)s::uuid[] is null then '{}'::jsonb
      else jsonb_build_object('raw', null, 'asks', false)
    end,
    'audience', (
      select coalesce(jsonb_agg(
        to_jsonb(message_audience) - '{org_id,message_id}'::text[] order by message_audience.participant_id
      ), '[]')
      from message_audience
      where message_audience.org_id = messages.org_id and message_audience.message_id = messages.id
    ),
    'revisions', (
      select coalesce(jsonb_agg(
        to_jsonb(message_revisions) - '{org_id,message_id}'::text[] order by message_revisions.written_at
      ), '[]')
      from message_revisions
      where message_revisions.org_id = messages.org_id and message_revisions.message_id = messages.id
    )
  )
)::text
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
left join lateral (
  select platform_accounts.account_id, platform_accounts.persona
  from platform_accounts
  where platform_accounts.org_id = messages.org_id and platform_accounts.participant_id = messages.author_id
  order by platform_accounts.platform <> rooms.platform, platform_accounts.platform, platform_accounts.account_id,
    platform_accounts.persona
  limit 1
) as account on true
where messages.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or messages.room_id = %(room_id)s)
  and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
order by messages.room_id, messages.sent_at, messages.sequence, messages.id;

-- name: export_replies
-- Replies. A person's export has those between their own messages.
select (jsonb_build_object('record', 'reply') || (to_jsonb(replies) - 'org_id'))::text
from replies
join messages as child on child.org_id = replies.org_id and child.id = replies.child_id
left join messages as parent on parent.org_id = replies.org_id and parent.id = replies.parent_id
where replies.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or replies.room_id = %(room_id)s)
  and (
    %(author_ids)s::uuid[] is null
    or child.author_id = any (%(author_ids)s)
    and (replies.parent_id is null or parent.author_id = any (%(author_ids)s))
  )
order by replies.room_id, replies.id;

-- name: export_conversations
-- Conversations, with their messages and interactions.
select (
  jsonb_build_object('record', 'conversation')
  || (to_jsonb(conversations) - '{org_id,id_from_end}'::text[])
  || jsonb_build_object(
    'messages', (
      select coalesce(jsonb_agg(
        to_jsonb(conversation_messages) - '{org_id,conversation_id}'::text[]
        order by conversation_messages.message_id
      ), '[]')
      from conversation_messages
      where conversation_messages.org_id = conversations.org_id
        and conversation_messages.conversation_id = conversations.id
    ),
    'interactions', (
      select coalesce(jsonb_agg(
        to_jsonb(interactions) - '{org_id,conversation_id}'::text[]
        order by interactions.agent_id, interactions.participant_id
      ), '[]')
      from interactions
      where interactions.org_id = conversations.org_id and interactions.conversation_id = conversations.id
    )
  )
)::text
from conversations
where conversations.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or conversations.room_id = %(room_id)s)
  and %(author_ids)s::uuid[] is null
order by conversations.room_id, conversations.id;

-- name: export_memories
-- A memory whose successor is not exported is left out: alone it would seem to stand.
select (
  jsonb_build_object('record', 'memory')
  || (to_jsonb(memories) - '{org_id,words,status,id_from_end}'::text[])
  || jsonb_build_object(
    'sources', (
      select coalesce(jsonb_agg(
        to_jsonb(memory_sources) - '{org_id,memory_id}'::text[] order by memory_sources.message_id
      ), '[]')
      from memory_sources
      join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
      where memory_sources.org_id = memories.org_id
        and memory_sources.memory_id = memories.id
        and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
    ),
    'participants', (
      select coalesce(jsonb_agg(
        to_jsonb(memory_participants) - '{org_id,memory_id}'::text[]
        order by memory_participants.participant_id, memory_participants.role
      ), '[]')
      from memory_participants
      where memory_participants.org_id = memories.org_id and memory_participants.memory_id = memories.id
    ),
    'tags', (
      select coalesce(jsonb_agg(to_jsonb(memory_tags) - '{org_id,memory_id}'::text[] order by memory_tags.tag), '[]')
      from memory_tags
      where memory_tags.org_id = memories.org_id and memory_tags.memory_id = memories.id
    ),
    'kept_beside', (
      select coalesce(jsonb_agg(
        to_jsonb(supersession_overrides) - '{org_id,memory_id}'::text[] order by supersession_overrides.digest
      ), '[]')
      from supersession_overrides
      where supersession_overrides.org_id = memories.org_id and supersession_overrides.memory_id = memories.id
    )
  )
)::text
from memories
where memories.org_id = %(org_id)s
  and (
    %(memory_ids)s::uuid[] is null
    or memories.id = any (%(memory_ids)s)
    and (memories.superseded_by is null or memories.superseded_by = any (%(memory_ids)s))
  )
order by memories.id;

-- name: export_injections
-- Which memories were injected, and when.
select (jsonb_build_object('record', 'injection') || (to_jsonb(injections) - 'org_id'))::text
from injections
where injections.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or injections.room_id = %(room_id)s)
  and (%(memory_ids)s::uuid[] is null or injections.memory_id = any (%(memory_ids)s))
  and %(author_ids)s::uuid[] is null
order by injections.room_id, injections.message_id;

-- name: export_privacy_requests
-- Privacy requests, with the messages that they restrict.
select (
  jsonb_build_object('record', 'privacy_request')
  || (to_jsonb(privacy_requests) - '{org_id,id_from_end}'::text[])
  || jsonb_build_object('restricted_messages', (
    select coalesce(jsonb_agg(
      to_jsonb(restricted_messages) - '{org_id,request_id}'::text[] order by restricted_messages.message_id
    ), '[]')
    from restricted_messages
    join messages on messages.org_id = restricted_messages.org_id and messages.id = restricted_messages.message_id
    where restricted_messages.org_id = privacy_requests.org_id
      and restricted_messages.request_id = privacy_requests.id
      and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
  ))
)::text
from privacy_requests
where privacy_requests.org_id = %(org_id)s
  and (%(room_id)s::uuid is null or privacy_requests.room_id = %(room_id)s)
  and (%(author_ids)s::uuid[] is null or privacy_requests.author_id = any (%(author_ids)s))
order by privacy_requests.room_id, privacy_requests.id;

-- name: export_erased_accounts
-- Digests of erased accounts.
select (jsonb_build_object('record', 'erased_account') || (to_jsonb(erased_accounts) - 'org_id'))::text
from erased_accounts
where org_id = %(org_id)s and %(room_id)s::uuid is null and %(author_ids)s::uuid[] is null
order by digest;

-- name: export_erased_names
-- Digests of the names of erased persons.
select (jsonb_build_object('record', 'erased_name') || (to_jsonb(erased_names) - 'org_id'))::text
from erased_names
where org_id = %(org_id)s and %(room_id)s::uuid is null and %(author_ids)s::uuid[] is null
order by digest;

-- name: export_erased_rooms
-- Digests of erased rooms.
select (jsonb_build_object('record', 'erased_room') || (to_jsonb(erased_rooms) - 'org_id'))::text
from erased_rooms
where org_id = %(org_id)s and %(room_id)s::uuid is null and %(author_ids)s::uuid[] is null
order by digest;

-- name: export_receipts
-- Receipts of erasures.
select (jsonb_build_object('record', 'receipt') || (to_jsonb(receipts) - '{org_id,id_from_end}'::text[]))::text
from receipts
where org_id = %(org_id)s and %(room_id)s::uuid is null and %(author_ids)s::uuid[] is null
order by id;

-- name: columns_of
-- the columns that a row is stored with, without generated ones
select tables.relname::text, columns.attname::text
from pg_attribute as columns
join pg_class as tables on tables.oid = columns.attrelid
where tables.relnamespace = 'roomlore'::regnamespace
  and tables.relname = any (%(tables)s)
  and columns.attnum > 0
  and not columns.attisdropped
  and columns.attgenerated = ''
order by tables.relname, columns.attnum;

-- name: rooms_with_other_ids
-- of these rooms, by platform, external id and id: those that exist under another id
select rooms.platform, rooms.external_id
from rooms
join unnest(%(wanted_1)s::text[], %(wanted_2)s::text[], %(wanted_3)s::uuid[]) as wanted (platform, external_id, id)
  on wanted.platform = rooms.platform and wanted.external_id = rooms.external_id and wanted.id <> rooms.id
where rooms.org_id = %(org_id)s;

-- name: participants_with_other_ids
-- the participants that already have these accounts, under another id
select wanted.id, platform_accounts.participant_id
from platform_accounts
join unnest(%(wanted_1)s::text[], %(wanted_2)s::text[], %(wanted_3)s::text[], %(wanted_4)s::uuid[])
  as wanted (platform, account_id, persona, id)
  on wanted.platform = platform_accounts.platform
  and wanted.account_id = platform_accounts.account_id
  and wanted.persona = platform_accounts.persona
  and wanted.id <> platform_accounts.participant_id
where platform_accounts.org_id = %(org_id)s;

-- name: set_successors
update memories
set superseded_by = stated.successor_id
from unnest(%(successors_1)s::uuid[], %(successors_2)s::uuid[]) as stated (id, successor_id)
where memories.org_id = %(org_id)s
  and memories.id = stated.id
  and memories.superseded_by is null
  and exists (select 1 from memories as successor where successor.org_id = %(org_id)s and successor.id = stated.successor_id);

-- name: needing_vectors
-- of these messages and memories
select embeddable.id from embeddable where embeddable.org_id = %(org_id)s and embeddable.id = any (%(ids)s);
