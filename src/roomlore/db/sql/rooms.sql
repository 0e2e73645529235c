-- Rooms as operators arrange them: who may read one, what it is called, who its members are, and that it goes.

-- name: standing -> RoomState
-- A room with how many of its messages everybody reads who may read the room: no whispers, nothing injected.
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

-- name: visibilities -> StoredVisibility
-- Who may read those of these rooms that are there.
select rooms.platform, rooms.external_id, rooms.visibility
from unnest(%(platform)s::text[], %(external_id)s::text[]) as asked (platform, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.external_id;

-- name: closed -> ChangedRow
-- Those of these rooms that are for their members.
select id from rooms where org_id = %(org_id)s and id = any (%(room_ids)s) and visibility = 'members';

-- name: set_visibility -> ChangedRow
-- Say who may read rooms; return those that others could read before.
update rooms
set visibility = %(visibility)s
where org_id = %(org_id)s and id = any (%(room_ids)s) and visibility <> %(visibility)s
returning id;

-- name: rename
-- Call a room by a name that stays, whatever its platform calls it.
update rooms set name = %(name)s, is_named = true where org_id = %(org_id)s and id = %(room_id)s;

-- name: members -> RoomMember
-- Who is and was a member of a room, those who are first.
select
  memberships.participant_id, participants.name, participants.kind,
  nullif(memberships.joined_at, '-infinity') as joined_at, nullif(memberships.left_at, 'infinity') as left_at,
  case when memberships.by_operator then 'operator' when memberships.implied then 'wrote' else 'platform' end as known_by
from memberships
join participants on participants.org_id = memberships.org_id and participants.id = memberships.participant_id
where memberships.org_id = %(org_id)s and memberships.room_id = %(room_id)s
order by memberships.left_at is not null, lower(participants.name), participants.id, memberships.joined_at;

-- name: confirm_member -> ChangedRow
-- Keep the presence of a member who was there already at a time and has not left, whatever lists say later.
update memberships
set by_operator = true, implied = false
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and participant_id = %(participant_id)s
  and joined_at <= coalesce(%(since)s::timestamptz, '-infinity')
  and left_at is null
returning participant_id as id;

-- name: add_member
-- Make somebody a member of a room from a time on; none is since ever.
insert into memberships (org_id, room_id, participant_id, joined_at, by_operator)
values (%(org_id)s, %(room_id)s, %(participant_id)s, coalesce(%(since)s::timestamptz, '-infinity'), true)
on conflict (org_id, room_id, participant_id, joined_at) do update
set left_at = null, by_operator = true, implied = false;

-- name: remove_member -> ChangedRow
-- End the presence of somebody in a room, by whatever account.
update memberships
set left_at = greatest(joined_at, %(at)s), by_operator = true, implied = false
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and participant_id = any (%(participant_ids)s::uuid[])
  and (left_at is null or left_at > %(at)s)
returning participant_id as id;

-- name: asserted_in -> ChangedRow
-- Memories that were asserted in a room.
select id from memories where org_id = %(org_id)s and asserted_in = %(room_id)s;

-- name: members_of -> ChangedRow
-- Everybody who ever was a member of a room.
select distinct participant_id as id from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: remember_room
-- Keep a room out from now on.
insert into erased_rooms (org_id, digest, erased_at)
values (%(org_id)s, %(digest)s, %(at)s)
on conflict do nothing;

-- name: erased_rooms -> ErasedRoom
-- Those of these digests that are of erased rooms.
select digest from erased_rooms where org_id = %(org_id)s and digest = any (%(digest)s::bytea[]);

-- name: drop_work
-- Drop work on a room; copies in other servers are still to go.
delete from work
where org_id = %(org_id)s and subject_id = %(room_id)s and stage not in ('qdrant', 'neo4j');

-- name: drop_readings
-- Remove what a language model was shown of a room, of which no message is left.
delete from readings where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_withheld
-- Let go of what wishes of a room keep from somebody.
delete from withheld
using wishes
where withheld.org_id = %(org_id)s
  and wishes.org_id = %(org_id)s
  and wishes.id = withheld.wish_id
  and wishes.room_id = %(room_id)s;

-- name: drop_wishes
-- Remove the wishes of a room, those without words too.
delete from wishes where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_injections
-- Remove what was given to agents in a room.
delete from injections where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_encounters
-- Forget who met in a room.
delete from encounters
using conversations
where encounters.org_id = %(org_id)s
  and conversations.org_id = %(org_id)s
  and conversations.id = encounters.conversation_id
  and conversations.room_id = %(room_id)s;

-- name: drop_conversations
-- Remove what is left of a room's conversations.
delete from conversations where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_changes
-- Remove what changed in a room.
delete from changes where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_calls
-- Remove how often a language model was asked about a room.
delete from asked_of_rooms where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_ranges
-- Remove which stretches of a room were erased: all of it is.
delete from erased_ranges where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_activity
-- Remove how much was written in a room.
delete from activity where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_memberships
-- Remove who was a member of a room.
delete from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: drop_room
-- Remove a room: its name, its topic, and what its platform calls it.
delete from rooms where org_id = %(org_id)s and id = %(room_id)s;
