-- A room as its page shows it: a window of what was said, and what hangs on each message of it.

-- name: room -> RoomHeader
-- A room, without counts.
select id, platform, external_id, workspace, name, kind, visibility, topic
from rooms
where org_id = %(org_id)s and id = %(room_id)s;

-- name: before -> Message
-- Messages of a room just before a place, newest first, with the beginnings of their words.
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, left(body, %(most)s) as body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, native_order, id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
order by sent_at desc, native_order desc, id desc
limit %(limit)s;

-- name: after -> Message
-- Messages of a room just after a place, oldest first, with the beginnings of their words.
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, left(body, %(most)s) as body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, native_order, id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
order by sent_at, native_order, id
limit %(limit)s;

-- name: before_narrowed -> MatchingMessage
-- Of so many messages of a room just before a place those by some authors, newest first.
-- Uses index: messages_in_order
select id
from (
  select id, author_id, author_kind, sent_at, native_order
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, native_order, id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
  order by sent_at desc, native_order desc, id desc
  limit %(looked_at)s
) as looked_at
where (%(author_ids)s::uuid[] is null or author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or author_kind = any (%(author_kinds)s))
order by sent_at desc, native_order desc, id desc
limit %(limit)s;

-- name: before_reached -> MatchingMessage
-- The last of so many messages of a room just before a place; none where there are fewer.
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, native_order, id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
order by sent_at desc, native_order desc, id desc
offset %(looked_at)s - 1
limit 1;

-- name: before_remembered -> MatchingMessage
-- Messages of a room just before a place on which a memory rests that stands, newest first: what is remembered is gone
-- through, and not what was said, which is much more.
with remembered as materialized (
  select distinct rests.message_id
  from ties_of(
    array(
      select memory_id
      from newest_memories(
        array[%(room_id)s::uuid], null, null, null, null, array['active'], null, null, null, null, null, null, null
      )
    )
  ) as rests
  where rests.message_id is not null
)
select messages.id
from remembered
join messages on messages.org_id = %(org_id)s and messages.id = remembered.message_id
where messages.room_id = %(room_id)s
  and (messages.sent_at, messages.native_order, messages.id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
  and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s))
order by messages.sent_at desc, messages.native_order desc, messages.id desc
limit %(limit)s;

-- name: after_narrowed -> MatchingMessage
-- Of so many messages of a room just after a place those by some authors, oldest first.
-- Uses index: messages_in_order
select id
from (
  select id, author_id, author_kind, sent_at, native_order
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, native_order, id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
  order by sent_at, native_order, id
  limit %(looked_at)s
) as looked_at
where (%(author_ids)s::uuid[] is null or author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or author_kind = any (%(author_kinds)s))
order by sent_at, native_order, id
limit %(limit)s;

-- name: after_reached -> MatchingMessage
-- The last of so many messages of a room just after a place; none where there are fewer.
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (sent_at, native_order, id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
order by sent_at, native_order, id
offset %(looked_at)s - 1
limit 1;

-- name: after_remembered -> MatchingMessage
-- Messages of a room just after a place on which a memory rests that stands, oldest first: what is remembered is gone
-- through, and not what was said, which is much more.
with remembered as materialized (
  select distinct rests.message_id
  from ties_of(
    array(
      select memory_id
      from newest_memories(
        array[%(room_id)s::uuid], null, null, null, null, array['active'], null, null, null, null, null, null, null
      )
    )
  ) as rests
  where rests.message_id is not null
)
select messages.id
from remembered
join messages on messages.org_id = %(org_id)s and messages.id = remembered.message_id
where messages.room_id = %(room_id)s
  and (messages.sent_at, messages.native_order, messages.id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
  and (%(author_ids)s::uuid[] is null or messages.author_id = any (%(author_ids)s))
  and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s))
order by messages.sent_at, messages.native_order, messages.id
limit %(limit)s;

-- name: of_conversation -> Message
-- Messages of a conversation just before a place, newest first, with the beginnings of their words.
select
  timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
  timeline.author_kind, left(timeline.body, %(most)s) as body, timeline.sent_at, timeline.precision,
  timeline.native_order, timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
  timeline.mentioned as mentions, timeline.reacted as reactions, timeline.told_metadata as metadata
from said_in(%(conversation_id)s) as held (message_id)
join timeline on timeline.org_id = %(org_id)s and timeline.id = held.message_id
where (timeline.sent_at, timeline.native_order, timeline.id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
order by timeline.sent_at desc, timeline.native_order desc, timeline.id desc
limit %(limit)s;

-- name: stretch -> TextSpan
-- A stretch of the words of a message, and how long they are.
select substr(body, %(start)s + 1, %(most)s) as text, length(body) as length
from messages
where org_id = %(org_id)s and id = %(message_id)s;

-- name: attached -> AttachmentName
-- What is attached to these messages: of each the first few, by name and kind.
select
  messages.id as message_id,
  left(coalesce(held.one ->> 'name', held.one ->> 'filename', held.one ->> 'title', ''), 200) as name,
  left(coalesce(held.one ->> 'type', held.one ->> 'content_type', held.one ->> 'kind', ''), 40) as kind
from messages
cross join lateral jsonb_array_elements(
  case when jsonb_typeof(messages.attachments) = 'array' then messages.attachments end
) with ordinality as held (one, place)
where messages.org_id = %(org_id)s
  and messages.id = any (%(message_ids)s)
  and held.place <= %(limit)s
  and jsonb_typeof(held.one) = 'object'
order by messages.id, held.place;

-- name: names -> RoomHeader
-- Rooms by name, without counts.
select id, platform, external_id, workspace, name, kind, visibility, topic
from rooms
where org_id = %(org_id)s
order by lower(name), id
limit %(limit)s;

-- name: rooms_for_operator -> Room
-- Rooms with a part of a name, with their maintained counts, most recently active first.
select
  rooms.id, rooms.platform, rooms.external_id, rooms.workspace, rooms.name, rooms.kind, rooms.visibility, rooms.topic,
  coalesce(counted.message_count, 0) as message_count,
  counted.last_activity_at,
  rooms.keep_for,
  case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at
from rooms
left join (
  select room_id, sum(message_count)::bigint as message_count, max(last_at) as last_activity_at
  from activity
  where org_id = %(org_id)s
  group by room_id
) as counted on counted.room_id = rooms.id
where rooms.org_id = %(org_id)s and position(lower(%(named)s) in lower(rooms.name)) > 0
order by counted.last_activity_at desc nulls last, rooms.name, rooms.id
offset %(skip)s
limit %(limit)s;

-- name: rooms_for_viewer -> Room
-- The same for a viewer: only what they may read counts, and it is counted in the rooms of one page alone.
-- Uses index: messages_in_order
select
  shown.id, shown.platform, shown.external_id, shown.workspace, shown.name, shown.kind, shown.visibility, shown.topic,
  (
    select count(*)
    from messages
    where messages.org_id = %(org_id)s and messages.room_id = shown.id and messages.erased_at is null
  ) as message_count,
  shown.last_activity_at,
  shown.keep_for,
  shown.retention_starts_at
from (
  select
    rooms.id, rooms.platform, rooms.external_id, rooms.workspace, rooms.name, rooms.kind, rooms.visibility, rooms.topic,
    rooms.keep_for,
    case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at,
    (
      select messages.sent_at
      from messages
      where messages.org_id = %(org_id)s and messages.room_id = rooms.id and messages.erased_at is null
      order by messages.sent_at desc, messages.native_order desc, messages.id desc
      limit 1
    ) as last_activity_at
  from rooms
  where rooms.org_id = %(org_id)s and position(lower(%(named)s) in lower(rooms.name)) > 0
  order by last_activity_at desc nulls last, rooms.name, rooms.id
  offset %(skip)s
  limit %(limit)s
) as shown
order by shown.last_activity_at desc nulls last, shown.name, shown.id;

-- name: spoke -> SpeakerCount
-- Who spoke in a room, by account, in the order in which they first did, as far as the viewer may read it: of its
-- oldest messages.
-- Uses index: messages_in_order
select said.author_id as id, count(*) as message_count, min(said.sent_at) as first_at, max(said.sent_at) as last_at
from (
  select author_id, sent_at
  from messages
  where org_id = %(org_id)s and room_id = %(room_id)s and kind <> 'system' and erased_at is null
  order by sent_at, native_order, id
  limit %(limit)s
) as said
group by said.author_id
order by min(said.sent_at), said.author_id;

-- name: spoke_last -> SpeakerCount
-- The same of its newest messages.
-- Uses index: messages_in_order
select said.author_id as id, count(*) as message_count, min(said.sent_at) as first_at, max(said.sent_at) as last_at
from (
  select author_id, sent_at
  from messages
  where org_id = %(org_id)s and room_id = %(room_id)s and kind <> 'system' and erased_at is null
  order by sent_at desc, native_order desc, id desc
  limit %(limit)s
) as said
group by said.author_id
order by min(said.sent_at), said.author_id;

-- name: named -> ParticipantName
-- What these participants are called, which of them are one person's, and for whom a bridge speaks.
select
  called.id, called.name, called.kind, coalesce(merges.person_id, called.id) as person_id,
  exists (
    select 1
    from identities
    where identities.org_id = called.org_id and identities.participant_id = called.id and identities.bridged
  ) as is_bridged
from known_participants as called
left join merges on merges.org_id = called.org_id and merges.participant_id = called.id
where called.org_id = %(org_id)s and called.id = any (%(participant_ids)s);

-- name: versions -> EarlierVersion
-- The beginnings of the newest earlier texts of these messages, oldest first.
select message_id, written_at, left(body, %(most)s) as body, length(body) > %(most)s as is_cut, held
from (
  select
    message_id, written_at, body,
    row_number() over (partition by message_id order by written_at desc) as place,
    count(*) over (partition by message_id) as held
  from revisions
  where org_id = %(org_id)s and message_id = any (%(message_ids)s)
) as numbered
where place <= %(limit)s
order by message_id, written_at;

-- name: hearers -> WhisperRecipient
-- To whom these whispers were said, their authors not among them, as far as the viewer may know of them.
select message_audience.message_id, called.id, called.name
from message_audience
join known_participants as called
  on called.org_id = message_audience.org_id and called.id = message_audience.participant_id
where message_audience.org_id = %(org_id)s and message_audience.message_id = any (%(message_ids)s)
order by message_audience.message_id, called.name, called.id;

-- name: remembered -> MessageMemory
-- The memories that stand and rest on these messages, newest first; whether one may be seen is asked once of each.
with rests as materialized (
  select message_id, memory_id from resting_on(%(message_ids)s::uuid[])
),
stands as materialized (
  select id, title, content, kind
  from memories
  where org_id = %(org_id)s and id = any (array(select distinct memory_id from rests)) and status = 'active'
)
select rests.message_id, stands.id, stands.title, stands.content, stands.kind
from rests
join stands on stands.id = rests.memory_id
order by rests.message_id, stands.id desc;

-- name: standing -> ConversationAssignment
-- Which conversations these messages are in, as far as the viewer may see these: the rule is asked twice for each
-- conversation and not for each message, however long a time lies between them.
with recursive asked as (
  select %(message_ids)s::uuid[] as left_ids, null::uuid as conversation_id, '{}'::uuid[] as held_ids
  union all
  select
    array(select one.id from unnest(asked.left_ids[2:]) as one (id) where one.id <> all (found.held_ids)),
    first.conversation_id,
    found.held_ids
  from asked
  cross join lateral (select conversation_of(asked.left_ids[1]) as conversation_id offset 0) as first
  cross join lateral (
    select array(
      select held.message_id
      from said_in(first.conversation_id) as held (message_id)
      where held.message_id = any (asked.left_ids)
    ) as held_ids
    offset 0
  ) as found
  where cardinality(asked.left_ids) > 0
)
select held.message_id, asked.conversation_id
from asked
cross join lateral unnest(asked.held_ids) as held (message_id)
where asked.conversation_id is not null;

-- name: labels -> ConversationTitle
-- What these conversations are called, and when they were.
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: earlier_conversations -> ConversationTitle
-- Conversations of a room that ended before one, newest first.
-- Uses index: conversations_of_room
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (last_at, id) < (%(last_at)s, %(conversation_id)s)
order by last_at desc, id desc
limit %(limit)s;

-- name: later_conversations -> ConversationTitle
-- Conversations of a room that ended after one, oldest first.
-- Uses index: conversations_of_room
select id, label, opened_at, last_at
from conversations
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and (last_at, id) > (%(last_at)s, %(conversation_id)s)
order by last_at, id
limit %(limit)s;
