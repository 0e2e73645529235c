-- name: room_state
-- Counts what every reader of the room may read: no whispers, nothing injected.
select
  rooms.id, rooms.platform, rooms.external_id, rooms.workspace, rooms.name, rooms.kind, rooms.visibility,
  (
    select count(*)
    from messages
    where messages.org_id = %(org_id)s
      and messages.room_id = rooms.id
      and messages.kind in ('message', 'system')
      and messages.erased_at is null
  ) as messages
from rooms
where rooms.org_id = %(org_id)s and rooms.id = %(room_id)s;

-- name: visibilities
select rooms.platform, rooms.external_id, rooms.visibility
from unnest(%(names_1)s::text[], %(names_2)s::text[]) as named (platform, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = named.platform and rooms.external_id = named.external_id;

-- name: closed_rooms
select id from rooms where org_id = %(org_id)s and id = any (%(room_ids)s) and visibility = 'members';

-- name: change_visibility
update rooms
set visibility = %(visibility)s
where org_id = %(org_id)s and id = any (%(room_ids)s) and visibility <> %(visibility)s
returning id;

-- name: set_context
update rooms set context_id = nullif(%(context_id)s, '') where org_id = %(org_id)s and id = %(room_id)s;

-- name: rooms_of_context
select id from rooms where org_id = %(org_id)s and context_id = %(context_id)s;

-- name: set_name
update rooms set name = %(name)s, is_named = true where org_id = %(org_id)s and id = %(room_id)s;

-- name: members
select
  memberships.participant_id, participants.name, participants.kind,
  nullif(memberships.joined_at, '-infinity') as joined_at, nullif(memberships.left_at, 'infinity') as left_at,
  case when memberships.by_operator then 'operator' when memberships.implied then 'wrote' else 'platform' end as known_by
from memberships
join participants on participants.org_id = memberships.org_id and participants.id = memberships.participant_id
where memberships.org_id = %(org_id)s and memberships.room_id = %(room_id)s
order by memberships.left_at is not null, lower(participants.name), participants.id, memberships.joined_at;

-- name: confirm_member
update memberships
set by_operator = true, implied = false
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and participant_id = %(participant_id)s
  and joined_at <= coalesce(%(since)s::timestamptz, '-infinity')
  and left_at is null
returning participant_id;

-- name: start_membership
insert into memberships (org_id, room_id, participant_id, joined_at, by_operator)
values (%(org_id)s, %(room_id)s, %(participant_id)s, coalesce(%(since)s::timestamptz, '-infinity'), true)
on conflict (org_id, room_id, participant_id, joined_at) do update
set left_at = null, by_operator = true, implied = false;

-- name: end_membership
update memberships
set left_at = greatest(joined_at, %(at)s), by_operator = true, implied = false
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and participant_id = any (%(participant_ids)s::uuid[])
  and (left_at is null or left_at > %(at)s)
returning room_id, participant_id, nullif(left_at, 'infinity') as left_at;

-- name: memories_asserted_in
select id from memories where org_id = %(org_id)s and asserted_in = %(room_id)s;

-- name: all_members
select distinct participant_id from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: record_erased
insert into erased_rooms (org_id, digest, erased_at)
values (%(org_id)s, %(digest)s, %(at)s)
on conflict do nothing;

-- name: erased_digests
select digest from erased_rooms where org_id = %(org_id)s and digest = any (%(digests)s::bytea[]);

-- name: drop_work
-- Work on a room; projections still have to delete it.
delete from work_queue
where org_id = %(org_id)s and subject_id = %(room_id)s and queue not in ('qdrant', 'neo4j');

-- name: drop_llm_calls
-- Calls of a language model about a room.
delete from llm_calls where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_restricted_messages
-- Restrictions by the requests of a room.
delete from restricted_messages
using privacy_requests
where restricted_messages.org_id = %(org_id)s
  and privacy_requests.org_id = %(org_id)s
  and privacy_requests.id = restricted_messages.request_id
  and privacy_requests.room_id = %(room_id)s;

-- name: drop_privacy_requests
-- The requests of a room, including their tombstones.
delete from privacy_requests where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_injections
-- Memories injected into a room.
delete from injections where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_interactions
-- Interactions in a room.
delete from interactions
using conversations
where interactions.org_id = %(org_id)s
  and conversations.org_id = %(org_id)s
  and conversations.id = interactions.conversation_id
  and conversations.room_id = %(room_id)s;

-- name: drop_conversations
-- The conversations of a room.
delete from conversations where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_outbox
-- Changes in a room.
delete from outbox where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_calls
-- How often a language model was called for a room.
delete from llm_room_quota where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_ranges
-- The erased ranges of a room.
delete from erased_ranges where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_activity
-- Message counts of a room.
delete from room_activity where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_memberships
-- The memberships of a room.
delete from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_room
-- A room.
delete from rooms where org_id = %(org_id)s and id = %(room_id)s;
