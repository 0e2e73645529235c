-- name: room
select id, platform, external_id, workspace, name, kind, visibility, topic
from rooms
where org_id = %(org_id)s and id = %(room_id)s;

-- name: messages_before
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, left(body, %(most)s) as body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, sequence, id) < (%(sent_at)s, %(sequence)s, %(message_id)s)
order by sent_at desc, sequence desc, id desc
limit %(limit)s;

-- name: messages_after
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, left(body, %(most)s) as body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, sequence, id) > (%(sent_at)s, %(sequence)s, %(message_id)s)
order by sent_at, sequence, id
limit %(limit)s;

-- name: matching_before
-- Uses index: messages_in_order
select id
from (
  select id, author_id, author_kind, sent_at, sequence
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, sequence, id) < (%(sent_at)s, %(sequence)s, %(message_id)s)
  order by sent_at desc, sequence desc, id desc
  limit %(scanned)s
) as scanned
where (%(author_ids)s::uuid[] is null or author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or author_kind = any (%(author_kinds)s))
order by sent_at desc, sequence desc, id desc
limit %(limit)s;

-- name: scan_end_before
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, sequence, id) < (%(sent_at)s, %(sequence)s, %(message_id)s)
order by sent_at desc, sequence desc, id desc
offset %(scanned)s - 1
limit 1;

-- name: remembered_before
-- Starts from memories, which are far fewer than messages.
with remembered as materialized (
  select distinct source.message_id
  from links_of(
    array(
      select memory_id
      from newest_memories(
        array[%(room_id)s::uuid], null, null, null, null, array['active'], null, null, null, null, null, null, null
      )
    )
  ) as source
  where source.message_id is not null
)
select messages.id
from remembered
join messages on messages.org_id = %(org_id)s and messages.id = remembered.message_id
where messages.room_id = %(room_id)s
  and (messages.sent_at, messages.sequence, messages.id) < (%(sent_at)s, %(sequence)s, %(message_id)s)
  and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s))
order by messages.sent_at desc, messages.sequence desc, messages.id desc
limit %(limit)s;

-- name: matching_after
-- Uses index: messages_in_order
select id
from (
  select id, author_id, author_kind, sent_at, sequence
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, sequence, id) > (%(sent_at)s, %(sequence)s, %(message_id)s)
  order by sent_at, sequence, id
  limit %(scanned)s
) as scanned
where (%(author_ids)s::uuid[] is null or author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or author_kind = any (%(author_kinds)s))
order by sent_at, sequence, id
limit %(limit)s;

-- name: scan_end_after
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, sequence, id) > (%(sent_at)s, %(sequence)s, %(message_id)s)
order by sent_at, sequence, id
offset %(scanned)s - 1
limit 1;

-- name: remembered_after
-- Starts from memories, which are far fewer than messages.
with remembered as materialized (
  select distinct source.message_id
  from links_of(
    array(
      select memory_id
      from newest_memories(
        array[%(room_id)s::uuid], null, null, null, null, array['active'], null, null, null, null, null, null, null
      )
    )
  ) as source
  where source.message_id is not null
)
select messages.id
from remembered
join messages on messages.org_id = %(org_id)s and messages.id = remembered.message_id
where messages.room_id = %(room_id)s
  and (messages.sent_at, messages.sequence, messages.id) > (%(sent_at)s, %(sequence)s, %(message_id)s)
  and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s))
order by messages.sent_at, messages.sequence, messages.id
limit %(limit)s;

-- name: of_conversation
select
  timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
  timeline.author_kind, left(timeline.body, %(most)s) as body, timeline.sent_at, timeline.precision,
  timeline.sequence, timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
  timeline.mentioned as mentions, timeline.reacted as reactions, timeline.told_metadata as metadata
from messages_in(%(conversation_id)s) as held (message_id)
join timeline on timeline.org_id = %(org_id)s and timeline.id = held.message_id
where (timeline.sent_at, timeline.sequence, timeline.id) < (%(sent_at)s, %(sequence)s, %(message_id)s)
order by timeline.sent_at desc, timeline.sequence desc, timeline.id desc
limit %(limit)s;

-- name: text_span
select substr(body, %(start)s + 1, %(most)s) as text, length(body) as length
from messages
where org_id = %(org_id)s and id = %(message_id)s;

-- name: attachment_names
select
  messages.id as message_id,
  left(coalesce(item.value ->> 'name', item.value ->> 'filename', item.value ->> 'title', ''), 200) as name,
  left(coalesce(item.value ->> 'type', item.value ->> 'content_type', item.value ->> 'kind', ''), 40) as kind
from messages
cross join lateral jsonb_array_elements(
  case when jsonb_typeof(messages.attachments) = 'array' then messages.attachments end
) with ordinality as item (value, place)
where messages.org_id = %(org_id)s
  and messages.id = any (%(ids)s)
  and item.place <= %(limit)s
  and jsonb_typeof(item.value) = 'object'
order by messages.id, item.place;

-- name: room_headers
select id, platform, external_id, workspace, name, kind, visibility, topic
from rooms
where org_id = %(org_id)s
order by lower(name), id
limit %(limit)s;

-- name: rooms_for_operator
select
  rooms.id, rooms.platform, rooms.external_id, rooms.workspace, rooms.name, rooms.kind, rooms.visibility, rooms.topic,
  rooms.context_id,
  coalesce(counted.message_count, 0) as message_count,
  counted.last_activity_at,
  rooms.retention_period,
  case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at
from rooms
left join (
  select room_id, sum(message_count)::bigint as message_count, max(last_at) as last_activity_at
  from room_activity
  where org_id = %(org_id)s
  group by room_id
) as counted on counted.room_id = rooms.id
where rooms.org_id = %(org_id)s and position(lower(%(named)s) in lower(rooms.name)) > 0
order by counted.last_activity_at desc nulls last, rooms.name, rooms.id
offset %(skip)s
limit %(limit)s;

-- name: rooms_for_viewer
-- Messages are counted in the rooms of one page only.
-- Uses index: messages_in_order
select
  shown.id, shown.platform, shown.external_id, shown.workspace, shown.name, shown.kind, shown.visibility, shown.topic,
  shown.context_id,
  (
    select count(*)
    from messages
    where messages.org_id = %(org_id)s and messages.room_id = shown.id and messages.erased_at is null
  ) as message_count,
  shown.last_activity_at,
  shown.retention_period,
  shown.retention_starts_at
from (
  select
    rooms.id, rooms.platform, rooms.external_id, rooms.workspace, rooms.name, rooms.kind, rooms.visibility, rooms.topic,
    rooms.context_id,
    rooms.retention_period,
    case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at,
    (
      select messages.sent_at
      from messages
      where messages.org_id = %(org_id)s and messages.room_id = rooms.id and messages.erased_at is null
      order by messages.sent_at desc, messages.sequence desc, messages.id desc
      limit 1
    ) as last_activity_at
  from rooms
  where rooms.org_id = %(org_id)s and position(lower(%(named)s) in lower(rooms.name)) > 0
  order by last_activity_at desc nulls last, rooms.name, rooms.id
  offset %(skip)s
  limit %(limit)s
) as shown
order by shown.last_activity_at desc nulls last, shown.name, shown.id;

-- name: first_speakers
-- Uses index: messages_in_order
select message.author_id as id, count(*) as message_count, min(message.sent_at) as first_at, max(message.sent_at) as last_at
from (
  select author_id, sent_at
  from messages
  where org_id = %(org_id)s and room_id = %(room_id)s and kind <> 'system' and erased_at is null
  order by sent_at, sequence, id
  limit %(limit)s
) as message
group by message.author_id
order by min(message.sent_at), message.author_id;

-- name: last_speakers
-- Uses index: messages_in_order
select message.author_id as id, count(*) as message_count, min(message.sent_at) as first_at, max(message.sent_at) as last_at
from (
  select author_id, sent_at
  from messages
  where org_id = %(org_id)s and room_id = %(room_id)s and kind <> 'system' and erased_at is null
  order by sent_at desc, sequence desc, id desc
  limit %(limit)s
) as message
group by message.author_id
order by min(message.sent_at), message.author_id;

-- name: participant_names
select
  known.id, known.name, known.kind, coalesce(participant_merges.person_id, known.id) as person_id,
  exists (
    select 1
    from platform_accounts
    where platform_accounts.org_id = known.org_id and platform_accounts.participant_id = known.id and platform_accounts.bridged
  ) as is_bridged
from known_participants as known
left join participant_merges on participant_merges.org_id = known.org_id and participant_merges.participant_id = known.id
where known.org_id = %(org_id)s and known.id = any (%(ids)s);

-- name: versions
select message_id, written_at, left(body, %(most)s) as body, length(body) > %(most)s as is_truncated, held
from (
  select
    message_id, written_at, body,
    row_number() over (partition by message_id order by written_at desc) as place,
    count(*) over (partition by message_id) as held
  from message_revisions
  where org_id = %(org_id)s and message_id = any (%(ids)s)
) as numbered
where place <= %(limit)s
order by message_id, written_at;

-- name: whisper_recipients
select message_audience.message_id, known.id, known.name
from message_audience
join known_participants as known
  on known.org_id = message_audience.org_id and known.id = message_audience.participant_id
where message_audience.org_id = %(org_id)s and message_audience.message_id = any (%(ids)s)
order by message_audience.message_id, known.name, known.id;

-- name: message_memories
-- The visibility of each memory is checked once.
with source as materialized (
  select message_id, memory_id from derived_from(%(ids)s::uuid[])
),
active as materialized (
  select id, title, content, kind
  from memories
  where org_id = %(org_id)s and id = any (array(select distinct memory_id from source)) and status = 'active'
)
select source.message_id, active.id, active.title, active.content, active.kind
from source
join active on active.id = source.memory_id
order by source.message_id, active.id desc;

-- name: assignments
-- Visibility is checked twice for each conversation, but not for each message.
with recursive step as (
  select %(ids)s::uuid[] as left_ids, null::uuid as conversation_id, '{}'::uuid[] as held_ids
  union all
  select
    array(select one.id from unnest(step.left_ids[2:]) as one (id) where one.id <> all (found.held_ids)),
    first.conversation_id,
    found.held_ids
  from step
  cross join lateral (select conversation_of(step.left_ids[1]) as conversation_id offset 0) as first
  cross join lateral (
    select array(
      select held.message_id
      from messages_in(first.conversation_id) as held (message_id)
      where held.message_id = any (step.left_ids)
    ) as held_ids
    offset 0
  ) as found
  where cardinality(step.left_ids) > 0
)
select held.message_id, step.conversation_id
from step
cross join lateral unnest(step.held_ids) as held (message_id)
where step.conversation_id is not null;

-- name: conversation_titles
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s and id = any (%(ids)s);

-- name: earlier_conversations
-- Uses index: conversations_of_room
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (last_at, id) < (%(last_at)s, %(id)s)
order by last_at desc, id desc
limit %(limit)s;

-- name: later_conversations
-- Uses index: conversations_of_room
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (last_at, id) > (%(last_at)s, %(id)s)
order by last_at, id
limit %(limit)s;
