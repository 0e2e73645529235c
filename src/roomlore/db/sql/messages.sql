-- name: make_staging
-- Rows come in once and every statement of the ingest uses them. The table is empty outside a transaction.
-- Always name it with its schema.
create temporary table incoming (
  id uuid, room_id uuid, external_id text, kind text, author_id uuid, author_name text, author_kind text,
  body text, sent_at timestamptz, precision text, sequence bigint, edited_at timestamptz,
  redacted_at timestamptz, synthetic_id boolean, mentions jsonb, attachments jsonb, reactions jsonb,
  metadata jsonb, raw jsonb, reply_to text, thread_root text, to_embed boolean
) on commit delete rows;

-- name: stage_messages
-- Send messages.
copy pg_temp.incoming from stdin;

-- name: add_staged
insert into messages (
  org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, received_at, edited_at, redacted_at, synthetic_id, mentions, attachments, reactions,
  metadata, raw
)
select
  %(org_id)s, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, %(received_at)s, edited_at, redacted_at, synthetic_id, mentions, attachments, reactions,
  metadata, raw
from pg_temp.incoming
on conflict (org_id, room_id, external_id) do nothing;

-- name: drop_known
delete from pg_temp.incoming
where not exists (select 1 from messages where org_id = %(org_id)s and messages.id = incoming.id)
returning id;

-- name: stored_version_rows
select
  messages.id, messages.room_id, messages.external_id, messages.kind, messages.author_id, messages.author_name,
  messages.body,
  coalesce(messages.edited_at, messages.sent_at) as written_at,
  messages.redacted_at,
  messages.stated_id is not null as is_said,
  messages.sent_at,
  array(
    select message_audience.participant_id
    from message_audience
    where message_audience.org_id = %(org_id)s and message_audience.message_id = messages.id
  ) as audience,
  array(
    select message_revisions.written_at
    from message_revisions
    where message_revisions.org_id = %(org_id)s and message_revisions.message_id = messages.id
    order by message_revisions.written_at
  ) as earlier_at,
  array(
    select message_revisions.body
    from message_revisions
    where message_revisions.org_id = %(org_id)s and message_revisions.message_id = messages.id
    order by message_revisions.written_at
  ) as earlier,
  case when jsonb_typeof(messages.raw -> 'text') = 'string' then messages.raw ->> 'text' end as source_text
from unnest(%(keys_1)s::uuid[], %(keys_2)s::text[]) as wanted (room_id, external_id)
join messages
  on messages.org_id = %(org_id)s
  and messages.room_id = wanted.room_id
  and messages.external_id = wanted.external_id;

-- name: revise_messages
update messages
set
  body = newer.body,
  -- a new text is read again
  asks = messages.asks and messages.body = newer.body,
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
update messages
set author_name = first.author_name
from unnest(%(message_id)s::uuid[], %(author_name)s::text[]) as first (id, author_name)
where messages.org_id = %(org_id)s and messages.id = first.id;

-- name: add_revisions
insert into message_revisions (org_id, message_id, written_at, body)
select %(org_id)s, earlier.message_id, earlier.written_at, earlier.body
from unnest(%(message_id)s::uuid[], %(written_at)s::timestamptz[], %(body)s::text[])
  as earlier (message_id, written_at, body)
join messages
  on messages.org_id = %(org_id)s and messages.id = earlier.message_id and messages.redacted_at is null
on conflict (org_id, message_id, written_at) do nothing;

-- name: redact
update messages
set
  body = '', redacted_at = %(redacted_at)s, edited_at = null, mentions = null, attachments = null, reactions = null,
  metadata = null, raw = null, asks = false
where org_id = %(org_id)s and id = any (%(ids)s) and redacted_at is null;

-- name: mark_questions
update messages
set asks = id = any (%(asking)s)
where org_id = %(org_id)s
  and id = any (%(ids)s)
  and redacted_at is null
  and asks <> (id = any (%(asking)s));

-- name: drop_revisions
delete from message_revisions where org_id = %(org_id)s and message_id = any (%(ids)s);

-- name: add_audiences
insert into message_audience (org_id, message_id, participant_id)
select %(org_id)s, message_id, participant_id
from unnest(%(message_id)s::uuid[], %(participant_id)s::uuid[]) as named (message_id, participant_id)
on conflict do nothing;

-- name: add_replies_of_added
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

-- name: add_stated_replies
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
returning child_id;

-- name: newest_of_rooms
-- Uses index: messages_in_order
select room.id, newest.id
from unnest(%(room_ids)s::uuid[]) as room (id)
cross join lateral (
  select id
  from messages
  where org_id = %(org_id)s and room_id = room.id
  order by sent_at desc, sequence desc, external_id desc
  limit 1
) as newest;

-- name: join_replies
update replies
set parent_id = arrived.id
from pg_temp.incoming as arrived
where replies.org_id = %(org_id)s
  and replies.room_id = arrived.room_id
  and replies.parent_external_id = arrived.external_id
  and replies.parent_id is null
  and replies.child_id <> arrived.id;

-- name: messages_by_id
select
  id, room_id, external_id, kind, author_id, author_name, author_kind,
  coalesce(left(body, %(most)s::integer), body) as body, sent_at, precision, sequence, edited_at, redacted_at,
  erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and id = any (%(ids)s)
order by sent_at, sequence, id;

-- name: messages_on_page
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
    timeline.author_kind, timeline.body, timeline.sent_at, timeline.precision, timeline.sequence,
    timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
    -- the mentions come from the body, which is not read where it is left out
    case when sum(timeline.size) over in_order - timeline.size < %(most_bytes)s then timeline.mentioned end as mentions,
    timeline.reacted as reactions, timeline.told_metadata as metadata,
    wanted.place, timeline.size, sum(timeline.size) over in_order::bigint as reach
  from unnest(%(ids)s::uuid[]) with ordinality as wanted (id, place)
  join timeline on timeline.org_id = %(org_id)s and timeline.id = wanted.id
  window in_order as (order by wanted.place rows unbounded preceding)
) as found
where reach - size < %(most_bytes)s
order by place;

-- name: messages_before
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
    sequence, edited_at, redacted_at, erased_at, reply_to,
    -- the mentions come from the body, which is not read where it is left out
    case when sum(size) over in_order - size < %(most_bytes)s then mentioned end as mentions,
    reacted as reactions, told_metadata as metadata, size, sum(size) over in_order::bigint as reach
  from timeline
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, sequence, id) < (%(place_1)s, %(place_2)s, %(place_3)s)
  window in_order as (order by sent_at desc, sequence desc, id desc rows unbounded preceding)
  order by sent_at desc, sequence desc, id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc, sequence desc, id desc;

-- name: messages_after
-- Uses index: messages_in_order
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
    sequence, edited_at, redacted_at, erased_at, reply_to,
    -- the mentions come from the body, which is not read where it is left out
    case when sum(size) over in_order - size < %(most_bytes)s then mentioned end as mentions,
    reacted as reactions, told_metadata as metadata, size, sum(size) over in_order::bigint as reach
  from timeline
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and (sent_at, sequence, id) > (%(place_1)s, %(place_2)s, %(place_3)s)
  window in_order as (order by sent_at, sequence, id rows unbounded preceding)
  order by sent_at, sequence, id
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at, sequence, id;

-- name: replies_around
-- If a message has very many replies, no more than `limit` of them are read.
-- Uses indexes: replies_to, replies_from
select distinct edge.child_id, edge.parent_id, edge.method, edge.confidence, edge.answer_probability
from unnest(%(ids)s::uuid[]) as message (id)
cross join lateral (
  (
    select child_id, parent_id, method, confidence, answer_probability
    from replies
    where org_id = %(org_id)s and child_id = message.id and parent_id is not null
  )
  union all
  (
    select child_id, parent_id, method, confidence, answer_probability
    from replies
    where org_id = %(org_id)s and parent_id = message.id
    order by confidence desc, child_id, method
    limit %(limit)s
  )
) as edge
order by edge.confidence desc, edge.child_id, edge.parent_id, edge.method
limit %(limit)s;

-- name: messages_known_as
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and external_id = %(word)s
order by id
limit 10;

-- name: messages_of_room_known_as
-- Uses index: messages_org_id_room_id_external_id_key
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s and room_id = %(room_id)s and external_id = %(word)s;

-- name: last_own_time
select max(sent_at)
from timeline
where org_id = %(org_id)s and room_id = %(room_id)s and author_id = any ((select own_ids())::uuid[]);

-- name: own_messages_stated_as
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, coalesce(metadata, '{}') as metadata
from timeline
where org_id = %(org_id)s
  and author_id = any ((select own_ids())::uuid[])
  and stated_id = %(word)s
  and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by id
limit 10;

-- name: messages_beginning_with
-- Uses index: messages_pkey
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentioned as mentions, reacted as reactions, told_metadata as metadata
from timeline
where org_id = %(org_id)s
  and id between %(ids_1)s and %(ids_2)s
  and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by id
limit 10;

-- name: platform_message
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
  platform_accounts.account_id,
  platform_accounts.persona,
  platform_accounts.bridged,
  participants.name as author_name,
  messages.author_kind,
  messages.body,
  messages.sent_at,
  messages.precision,
  messages.sequence,
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
join platform_accounts on platform_accounts.org_id = messages.org_id and platform_accounts.participant_id = messages.author_id
where messages.org_id = %(org_id)s and messages.id = %(message_id)s
order by platform_accounts.platform <> rooms.platform, platform_accounts.account_id, platform_accounts.persona
limit 1;

-- name: platform_recipients
select distinct on (participants.id)
  platform_accounts.account_id, platform_accounts.persona, platform_accounts.bridged, participants.name, participants.kind
from message_audience
join messages on messages.org_id = message_audience.org_id and messages.id = message_audience.message_id
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
join participants
  on participants.org_id = message_audience.org_id and participants.id = message_audience.participant_id
join platform_accounts
  on platform_accounts.org_id = participants.org_id
  and platform_accounts.participant_id = participants.id
  and platform_accounts.platform = rooms.platform
where message_audience.org_id = %(org_id)s and message_audience.message_id = %(message_id)s
order by participants.id, platform_accounts.account_id, platform_accounts.persona;
