-- name: rooms_named
select
  rooms.id, rooms.platform, rooms.external_id as room,
  exists (select 1 from open_rooms_of_viewer where open_rooms_of_viewer.room_id = rooms.id) as is_open
from unnest(%(names_1)s::text[], %(names_2)s::text[]) as named (platform, room)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = named.platform and rooms.external_id = named.room;

-- name: rooms_with_removals
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

-- name: rooms_with_restrictions
-- Uses index: privacy_requests_of_room
select distinct rooms.platform, rooms.external_id as room
from privacy_requests
join rooms on rooms.org_id = privacy_requests.org_id and rooms.id = privacy_requests.room_id
where privacy_requests.org_id = %(org_id)s
  and privacy_requests.status = 'active'
  and (select privacy_mode from orgs where orgs.org_id = %(org_id)s) <> 'off';

-- name: restricted_repeats
-- Punctuation and case are ignored.
with restricted_texts as (
  select distinct regexp_replace(lower(message.body), '[^[:alnum:]]+', ' ', 'g') as text
  from restricted_messages
  join messages as message on message.org_id = restricted_messages.org_id and message.id = restricted_messages.message_id
  where restricted_messages.org_id = %(org_id)s and message.body <> ''
)
select repeated.text
from unnest(%(texts)s::text[]) as repeated (text)
where exists (
  select 1
  from restricted_texts
  where position(
    ' ' || btrim(restricted_texts.text) || ' '
    in ' ' || btrim(regexp_replace(lower(repeated.text), '[^[:alnum:]]+', ' ', 'g')) || ' '
  ) > 0
);

-- name: suppressed_values
select distinct mark
from privacy_requests
cross join lateral unnest(privacy_requests.identifiers || privacy_requests.own_identifiers) as mark
where privacy_requests.org_id = %(org_id)s and privacy_requests.status = 'active';

-- name: platforms
select distinct platform from rooms where org_id = %(org_id)s;

-- name: stored_messages
-- Each is found by its own index lookup: `offset 0` keeps the planner from joining.
select named.platform, named.room, named.external_id
from unnest(%(names_1)s::text[], %(names_2)s::text[], %(names_3)s::text[])
  as named (platform, room, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = named.platform and rooms.external_id = named.room
cross join lateral (
  select messages.id
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.external_id = named.external_id
  offset 0
) as stored;
