-- Messages, their versions, audiences and reply edges.

-- name: make_staging
-- The session's own table through which new messages come in: sent once, then used by every statement that
-- follows from them. It is empty outside of a transaction. Always named with its schema.
create temporary table incoming (
  id uuid, room_id uuid, external_id text, kind text, author_id uuid, author_name text, author_kind text,
  body text, sent_at timestamptz, precision text, native_order bigint, edited_at timestamptz,
  redacted_at timestamptz, synthetic_id boolean, mentions jsonb, attachments jsonb, reactions jsonb,
  metadata jsonb, raw jsonb, reply_to text, thread_root text, to_embed boolean
) on commit delete rows;

-- name: stage_messages
-- Send messages.
copy pg_temp.incoming from stdin;

-- name: add_messages
-- Add the messages sent; one that is there already stays untouched.
insert into messages (
  org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, received_at, edited_at, redacted_at, synthetic_id, mentions, attachments, reactions,
  metadata, raw
)
select
  %(org_id)s, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, %(received_at)s, edited_at, redacted_at, synthetic_id, mentions, attachments, reactions,
  metadata, raw
from pg_temp.incoming
on conflict (org_id, room_id, external_id) do nothing;

-- name: leave_known_messages -> ExistingMessage
-- Forget those of the messages sent that were there already.
delete from pg_temp.incoming
where not exists (select 1 from messages where org_id = %(org_id)s and messages.id = incoming.id)
returning id;

-- name: stored_versions -> StoredVersion
-- The current text of these messages, as it was last written, and the earlier ones.
select
  messages.id, messages.room_id, messages.external_id, messages.kind, messages.author_id, messages.author_name,
  messages.body,
  coalesce(messages.edited_at, messages.sent_at) as written_at,
  messages.redacted_at,
  messages.stated_id is not null as is_said,
  array(
    select message_audience.participant_id
    from message_audience
    where message_audience.org_id = %(org_id)s and message_audience.message_id = messages.id
  ) as audience,
  array(
    select revisions.written_at
    from revisions
    where revisions.org_id = %(org_id)s and revisions.message_id = messages.id
    order by revisions.written_at
  ) as earlier_at,
  array(
    select revisions.body
    from revisions
    where revisions.org_id = %(org_id)s and revisions.message_id = messages.id
    order by revisions.written_at
  ) as earlier,
  case when jsonb_typeof(messages.raw -> 'text') = 'string' then messages.raw ->> 'text' end as source_text
from unnest(%(room_id)s::uuid[], %(external_id)s::text[]) as asked (room_id, external_id)
join messages
  on messages.org_id = %(org_id)s
  and messages.room_id = asked.room_id
  and messages.external_id = asked.external_id;

-- name: revise_messages
-- Put newer texts in place of the current ones.
update messages
set
  body = newer.body,
  edited_at = newer.written_at,
  attachments = newer.attachments::jsonb,
  mentions = newer.mentions::jsonb,
  reactions = newer.reactions::jsonb,
  metadata = newer.metadata::jsonb,
  raw = newer.raw::jsonb
from unnest(
  %(message_id)s::uuid[], %(body)s::text[], %(written_at)s::timestamptz[], %(attachments)s::text[],
  %(mentions)s::text[], %(reactions)s::text[], %(metadata)s::text[], %(raw)s::text[]
) as newer (id, body, written_at, attachments, mentions, reactions, metadata, raw)
where messages.org_id = %(org_id)s and messages.id = newer.id and messages.redacted_at is null;

-- name: restore_author_names
-- Put back how authors were called when they said it.
update messages
set author_name = first.author_name
from unnest(%(message_id)s::uuid[], %(author_name)s::text[]) as first (id, author_name)
where messages.org_id = %(org_id)s and messages.id = first.id;

-- name: add_revisions
-- Keep earlier texts; one that is kept already stays, and a removed message has none.
insert into revisions (org_id, message_id, written_at, body)
select %(org_id)s, earlier.message_id, earlier.written_at, earlier.body
from unnest(%(message_id)s::uuid[], %(written_at)s::timestamptz[], %(body)s::text[])
  as earlier (message_id, written_at, body)
join messages
  on messages.org_id = %(org_id)s and messages.id = earlier.message_id and messages.redacted_at is null
on conflict (org_id, message_id, written_at) do nothing;

-- name: redact_messages
-- Remove the content of messages and keep their place.
update messages
set
  body = '', redacted_at = %(redacted_at)s, edited_at = null, mentions = null, attachments = null, reactions = null,
  metadata = null, raw = null
where org_id = %(org_id)s and id = any (%(message_ids)s) and redacted_at is null;

-- name: drop_revisions
-- Remove the earlier texts of messages.
delete from revisions where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: add_audiences
-- Say who may read these whispers besides their authors.
insert into message_audience (org_id, message_id, participant_id)
select %(org_id)s, message_id, participant_id
from unnest(%(message_id)s::uuid[], %(participant_id)s::uuid[]) as named (message_id, participant_id)
on conflict do nothing;

-- name: add_replies_of_added
-- Add the edges that messages just added state; a parent that has not arrived is kept by its external id.
insert into replies (org_id, room_id, child_id, parent_id, parent_external_id, method, confidence)
select %(org_id)s, added.room_id, added.id, parent.id, stated.parent_external_id, stated.method, 1.0
from pg_temp.incoming as added
cross join lateral (
  values (added.reply_to, 'explicit'), (added.thread_root, 'thread')
) as stated (parent_external_id, method)
left join messages as parent
  on parent.org_id = %(org_id)s
  and parent.room_id = added.room_id
  and parent.external_id = stated.parent_external_id
where stated.parent_external_id is not null and parent.id is distinct from added.id;

-- name: add_replies -> RoomMessage
-- Add the platform's own edges and tell which messages got one; a parent that has not arrived yet is kept by its
-- external id.
insert into replies (org_id, room_id, child_id, parent_id, parent_external_id, method, confidence)
select %(org_id)s, stated.room_id, stated.child_id, parent.id, stated.parent_external_id, stated.method, 1.0
from unnest(%(room_id)s::uuid[], %(child_id)s::uuid[], %(parent_external_id)s::text[], %(method)s::text[])
  as stated (room_id, child_id, parent_external_id, method)
left join messages as parent
  on parent.org_id = %(org_id)s
  and parent.room_id = stated.room_id
  and parent.external_id = stated.parent_external_id
where parent.id is distinct from stated.child_id
on conflict (org_id, child_id, method) where method in ('explicit', 'thread') do nothing
returning room_id, child_id as message_id;

-- name: newest_of_rooms -> RoomMessage
-- The newest message of each of these rooms.
-- Uses index: messages_in_order
select asked.room_id, newest.id as message_id
from unnest(%(room_ids)s::uuid[]) as asked (room_id)
cross join lateral (
  select id
  from messages
  where org_id = %(org_id)s and room_id = asked.room_id
  order by sent_at desc, native_order desc, external_id desc
  limit 1
) as newest;

-- name: resolve_replies
-- Join edges to parents that have just arrived.
update replies
set parent_id = arrived.id
from pg_temp.incoming as arrived
where replies.org_id = %(org_id)s
  and replies.room_id = arrived.room_id
  and replies.parent_external_id = arrived.external_id
  and replies.parent_id is null
  and replies.child_id <> arrived.id;

-- name: messages_by_id -> Message
-- These messages, as far as they are visible; of their words so many characters, or all.
select
  id, room_id, external_id, kind, author_id, author_name, author_kind,
  coalesce(left(body, %(most)s::integer), body) as body, sent_at, precision, native_order, edited_at, redacted_at,
  erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and id = any (%(message_ids)s)
order by sent_at, native_order, id;

-- name: messages_within -> Message
-- These messages as far as they are visible, in the order in which they are asked for.
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
    timeline.author_kind, timeline.body, timeline.sent_at, timeline.precision, timeline.native_order,
    timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
    -- Whom it names stands in its words, which are not read of what is left out.
    case when sum(timeline.size) over in_order - timeline.size < %(most_bytes)s then timeline.mentioned end as mentions,
    timeline.reacted as reactions, timeline.told_metadata as metadata,
    asked.place, timeline.size, sum(timeline.size) over in_order::bigint as reach
  from unnest(%(message_ids)s::uuid[]) with ordinality as asked (id, place)
  join timeline on timeline.org_id = %(org_id)s and timeline.id = asked.id
  window in_order as (order by asked.place rows unbounded preceding)
) as found
where reach - size < %(most_bytes)s
order by place;

-- name: messages_before -> Message
-- The messages of a room just before a place, newest first, as many as one answer holds.
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
    native_order, edited_at, redacted_at, erased_at, reply_to,
    -- Whom it names stands in its words, which are not read of what is left out.
    case when sum(size) over in_order - size < %(most_bytes)s then mentioned end as mentions,
    reacted as reactions, told_metadata as metadata, size, sum(size) over in_order::bigint as reach
  from timeline
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, native_order, id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
  window in_order as (order by sent_at desc, native_order desc, id desc rows unbounded preceding)
  order by sent_at desc, native_order desc, id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc, native_order desc, id desc;

-- name: messages_after -> Message
-- The messages of a room just after a place, oldest first, as many as one answer holds.
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
    native_order, edited_at, redacted_at, erased_at, reply_to,
    -- Whom it names stands in its words, which are not read of what is left out.
    case when sum(size) over in_order - size < %(most_bytes)s then mentioned end as mentions,
    reacted as reactions, told_metadata as metadata, size, sum(size) over in_order::bigint as reach
  from timeline
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, native_order, id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
  window in_order as (order by sent_at, native_order, id rows unbounded preceding)
  order by sent_at, native_order, id
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at, native_order, id;

-- name: replies_around -> Reply
-- Reply edges with one of these messages at either end, most confident first.
-- Of a message with very many answers no more are looked at than are wanted in all.
-- Uses indexes: replies_to, replies_from
select distinct edge.child_id, edge.parent_id, edge.method, edge.confidence
from unnest(%(message_ids)s::uuid[]) as asked (id)
cross join lateral (
  (
    select child_id, parent_id, method, confidence
    from replies
    where org_id = %(org_id)s and child_id = asked.id and parent_id is not null
  )
  union all
  (
    select child_id, parent_id, method, confidence
    from replies
    where org_id = %(org_id)s and parent_id = asked.id
    order by confidence desc, child_id, method
    limit %(limit)s
  )
) as edge
order by edge.confidence desc, edge.child_id, edge.parent_id, edge.method
limit %(limit)s;

-- name: messages_known_as -> Message
-- Messages of any room that a platform knows by this id.
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and external_id = %(word)s
order by id
limit 10;

-- name: messages_of_room_known_as -> Message
-- The message of a room that its platform knows by this id.
-- Uses index: messages_org_id_room_id_external_id_key
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and room_id = %(room_id)s and external_id = %(word)s;

-- name: own_messages_stated_as -> Message
-- The viewer's own messages, of one room or of any, that were stored with this id of their speaker's own.
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, coalesce(metadata, '{}') as metadata
from timeline
where org_id = %(org_id)s
  and author_id = any ((select own_ids())::uuid[])
  and stated_id = %(word)s
  and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by id
limit 10;

-- name: messages_beginning_with -> Message
-- Messages with ids in a range, of one room or of any.
-- Uses index: messages_pkey
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and id between %(low)s and %(high)s
  and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by id
limit 10;

-- name: message_as_told -> PlatformMessage
-- A message with what its platform told of it, its room and its author, who is called as now.
select
  messages.id,
  rooms.platform,
  rooms.external_id as room_external_id,
  rooms.name as room_name,
  rooms.kind as room_kind,
  rooms.visibility,
  rooms.topic,
  messages.external_id,
  messages.kind,
  identities.account_id,
  identities.persona,
  identities.bridged,
  participants.name as author_name,
  messages.author_kind,
  messages.body,
  messages.sent_at,
  messages.precision,
  messages.native_order,
  messages.edited_at,
  messages.redacted_at,
  messages.synthetic_id,
  messages.mentions,
  messages.attachments,
  messages.reactions,
  messages.metadata
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
join participants on participants.org_id = messages.org_id and participants.id = messages.author_id
join identities on identities.org_id = messages.org_id and identities.participant_id = messages.author_id
where messages.org_id = %(org_id)s and messages.id = %(message_id)s
order by identities.platform <> rooms.platform, identities.account_id, identities.persona
limit 1;

-- name: audience_as_told -> PlatformRecipient
-- To whom a whisper is addressed, as the platform of its room knows them.
select distinct on (participants.id)
  identities.account_id, identities.persona, identities.bridged, participants.name, participants.kind
from message_audience
join messages on messages.org_id = message_audience.org_id and messages.id = message_audience.message_id
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
join participants
  on participants.org_id = message_audience.org_id and participants.id = message_audience.participant_id
join identities
  on identities.org_id = participants.org_id
  and identities.participant_id = participants.id
  and identities.platform = rooms.platform
where message_audience.org_id = %(org_id)s and message_audience.message_id = %(message_id)s
order by participants.id, identities.account_id, identities.persona;
