-- What is known of the rooms and messages that lines of raw logs may be of.

-- name: rooms_named -> NamedRoom
-- Those of these rooms that the viewer may see, and whether everybody may read them.
select
  rooms.id, rooms.platform, rooms.external_id as room,
  exists (select 1 from open_rooms_of_viewer where open_rooms_of_viewer.room_id = rooms.id) as is_open
from unnest(%(platform)s::text[], %(room)s::text[]) as asked (platform, room)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room;

-- name: stays -> MembershipRow
-- When the viewer was a member of these rooms.
select room_id, nullif(joined_at, '-infinity') as joined_at, nullif(left_at, 'infinity') as left_at
from stays_of_viewer
where room_id = any (%(room_ids)s);

-- name: removed_in -> RoomWithRemovals
-- The rooms in which something was redacted or erased.
-- Uses index: messages_removed
select rooms.platform, rooms.external_id as room
from rooms
where rooms.org_id = %(org_id)s
  and exists (
    select 1
    from messages
    where messages.org_id = rooms.org_id
      and messages.room_id = rooms.id
      and (messages.redacted_at is not null or messages.erased_at is not null)
  );

-- name: withheld_in -> RoomWithRemovals
-- The rooms in which something is kept from somebody by a request.
-- Uses index: wishes_of_room
select distinct rooms.platform, rooms.external_id as room
from wishes
join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
where wishes.org_id = %(org_id)s
  and wishes.status = 'active'
  and (select wish_mode from orgs where orgs.org_id = %(org_id)s) <> 'off';

-- name: repeating -> RepeatedText
-- Those of some texts that say, whole and in whatever signs, what a request withholds; by their places in the list.
with withheld_texts as (
  select distinct regexp_replace(lower(said.body), '[^[:alnum:]]+', ' ', 'g') as text
  from withheld
  join messages as said on said.org_id = withheld.org_id and said.id = withheld.message_id
  where withheld.org_id = %(org_id)s and said.body <> ''
)
select asked.place::integer as place
from unnest(%(texts)s::text[]) with ordinality as asked (text, place)
where exists (
  select 1
  from withheld_texts
  where position(
    ' ' || btrim(withheld_texts.text) || ' '
    in ' ' || btrim(regexp_replace(lower(asked.text), '[^[:alnum:]]+', ' ', 'g')) || ' '
  ) > 0
);

-- name: marked -> SuppressedValue
-- The digests of the values that requests want forgotten.
select distinct mark
from wishes
cross join lateral unnest(wishes.marks || wishes.own_marks) as mark
where wishes.org_id = %(org_id)s and wishes.status = 'active';

-- name: platforms -> PlatformName
-- The platforms of all rooms.
select distinct platform from rooms where org_id = %(org_id)s;

-- name: stored -> StoredMessageName
-- Those of these places at which there is a message, or was one. Each is looked up by its own.
select asked.platform, asked.room, asked.external_id
from unnest(%(platform)s::text[], %(room)s::text[], %(external_id)s::text[])
  as asked (platform, room, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room
cross join lateral (
  select messages.id
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.external_id = asked.external_id
  offset 0
) as held;
