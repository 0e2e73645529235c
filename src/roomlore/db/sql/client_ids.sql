-- name: earlier_messages
-- Uses indexes: messages_as_stated, messages_org_id_room_id_external_id_key
select
  messages.id, messages.kind, messages.body, messages.redacted_at is not null as is_gone,
  array(
    select message_audience.participant_id
    from message_audience
    where message_audience.org_id = %(org_id)s and message_audience.message_id = messages.id
  ) as audience,
  array(
    select message_revisions.body
    from message_revisions
    where message_revisions.org_id = %(org_id)s and message_revisions.message_id = messages.id
  ) as earlier
from messages
where messages.org_id = %(org_id)s
  and messages.room_id = %(room_id)s
  and (
    messages.stated_id = %(stated_id)s and messages.stated_by = any (%(stated_by)s::bytea[])
    or messages.external_id = %(stated_id)s and messages.author_id = any (%(own)s::uuid[])
  )
order by messages.stated_id is null, messages.id
limit 1;

-- name: add
update messages
set stated_id = %(stated_id)s, stated_by = %(stated_by)s
where org_id = %(org_id)s and id = %(message_id)s;

-- name: unmatched
-- Uses index: messages_as_stated
select
  messages.id, messages.room_id, messages.stated_id, messages.author_id, messages.kind,
  array(
    select message_audience.participant_id
    from message_audience
    where message_audience.org_id = %(org_id)s and message_audience.message_id = messages.id
  ) as audience
from unnest(%(keys_1)s::uuid[], %(keys_2)s::text[]) as asked (room_id, stated_id)
join messages
  on messages.org_id = %(org_id)s
  and messages.room_id = asked.room_id
  and messages.stated_id = asked.stated_id
where messages.erased_at is null
  and not exists (
    select 1
    from messages as known
    where known.org_id = %(org_id)s and known.room_id = asked.room_id and known.external_id = asked.stated_id
  )
order by messages.id;

-- name: adopt_platform_ids
update messages
set external_id = stated_id
where org_id = %(org_id)s and id = any (%(message_ids)s) and stated_id is not null;

-- name: relink_replies
-- Uses indexes: messages_as_stated, replies_to
update replies
set parent_id = arrived.id
from pg_temp.incoming as arrived
join messages as said
  on said.org_id = %(org_id)s
  and said.room_id = arrived.room_id
  and said.stated_id = arrived.external_id
  and said.id <> arrived.id
where replies.org_id = %(org_id)s
  and replies.parent_id = said.id
  and replies.parent_external_id = arrived.external_id
  and replies.child_id <> arrived.id
returning replies.child_id;

-- name: link_replies
-- Uses indexes: replies_from, messages_as_stated
update replies
set parent_id = said.id
from unnest(%(message_ids)s::uuid[]) as child (id), messages as said
where replies.org_id = %(org_id)s
  and replies.child_id = child.id
  and replies.parent_id is null
  and said.org_id = %(org_id)s
  and said.room_id = replies.room_id
  and said.stated_id = replies.parent_external_id
  and said.erased_at is null
  and said.id <> replies.child_id
returning replies.child_id;

-- name: link_waiting_replies
-- Uses index: replies_awaiting_parent
update replies
set parent_id = said.id
from messages as said
where said.org_id = %(org_id)s
  and said.id = %(message_id)s
  and replies.org_id = %(org_id)s
  and replies.room_id = said.room_id
  and replies.parent_external_id = said.stated_id
  and replies.parent_id is null
  and replies.child_id <> said.id
returning replies.child_id;

-- name: persons_of_accounts
select participant_id, person_id
from participant_merges
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: tombstones
-- Uses index: messages_as_stated
select rooms.platform, rooms.external_id as room, messages.stated_id, messages.stated_by
from unnest(%(names_1)s::text[], %(names_2)s::text[], %(names_3)s::text[])
  as asked (platform, room, stated_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room
join messages
  on messages.org_id = %(org_id)s
  and messages.room_id = rooms.id
  and messages.stated_id = asked.stated_id
where messages.erased_at is not null;
