-- What people review of the wishes that were heard, and what they decide.

-- name: all_of -> WishRow
-- The newest wishes that the viewer may see, newest first, as many as one answer holds.
select
  id, room_id, room_name, message_id, author_id, author_name, kind, status, doubt, heard_by, sent_at, body, decided_at,
  decided_by, from_ids, spared_ids, is_standing, permits, denies, told, reach
from (
  select
    wishes.id, wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, wishes.message_id, wishes.author_id,
    coalesce(said.author_name, '') as author_name, wishes.kind, wishes.status, wishes.doubt, wishes.heard_by, said.sent_at,
    coalesce(said.body, '') as body, wishes.decided_at, wishes.decided_by, wishes.from_ids, wishes.spared_ids,
    wishes.is_standing, wishes.permits, wishes.denies, wishes.told, coalesce(octet_length(said.body), 0) as size,
    sum(coalesce(octet_length(said.body), 0)) over (
      order by said.sent_at desc nulls last, wishes.id desc rows unbounded preceding
    )::bigint as reach
  from wishes
  left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
  left join messages as said on said.org_id = wishes.org_id and said.id = wishes.message_id
  where wishes.org_id = %(org_id)s
    and (%(room_id)s::uuid is null or wishes.room_id = %(room_id)s)
    and (%(status)s::text is null or wishes.status = %(status)s)
    and (
      wishes.id between %(low)s and %(high)s
      or wishes.id_from_end between %(end_low)s and %(end_high)s
    )
    -- one that names nobody who is known waits, and means nothing yet
    and (wishes.from_ids is null or wishes.from_ids <> '{}')
  order by said.sent_at desc nulls last, wishes.id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc nulls last, id desc;

-- name: covered_by -> Covered
-- What wishes withhold, and what proposed ones would at least, oldest first.
select held.wish_id, said.id as message_id
from (
  select withheld.wish_id, withheld.message_id
  from withheld
  where withheld.org_id = %(org_id)s and withheld.wish_id = any (%(wish_ids)s)
  union
  select wishes.id, unnest(wishes.target_ids)
  from wishes
  where wishes.org_id = %(org_id)s and wishes.id = any (%(wish_ids)s) and wishes.status = 'proposed'
) as held
join messages as said on said.org_id = %(org_id)s and said.id = held.message_id
order by said.sent_at, said.native_order, said.id;

-- name: withheld_of -> WithheldRow
-- Which wishes withhold these messages, and from whom.
select
  withheld.message_id, withheld.wish_id, wishes.kind, wishes.author_id, coalesce(voice.author_name, '') as author_name,
  wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, withheld.from_ids
from withheld
join wishes on wishes.org_id = withheld.org_id and wishes.id = withheld.wish_id
left join messages as voice on voice.org_id = wishes.org_id and voice.id = wishes.message_id
left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
where withheld.org_id = %(org_id)s and withheld.message_id = any (%(message_ids)s)
  -- one that names nobody who is known keeps it from nobody
  and (withheld.from_ids is null or withheld.from_ids <> '{}')
order by withheld.message_id, withheld.wish_id;

-- name: counts -> WishCounts
-- How many wishes were carried out, proposed and dismissed, of those that the viewer may see.
select
  count(*) filter (where status = 'active')::integer as carried_out,
  count(*) filter (where status = 'proposed')::integer as proposed,
  count(*) filter (where status = 'dismissed')::integer as dismissed
from wishes
-- one that names nobody who is known waits, and means nothing yet
where org_id = %(org_id)s and (from_ids is null or from_ids <> '{}');

-- name: decide
-- Note what somebody decided about a wish.
update wishes
set status = %(status)s, decided_at = %(at)s, decided_by = %(by)s
where org_id = %(org_id)s and id = %(id)s and status <> %(status)s;

-- name: mode -> ModeRow
-- What an org does with the requests it hears.
select wish_mode as mode from orgs where org_id = %(org_id)s;

-- name: set_mode
-- Say what an org does with the requests it hears.
update orgs set wish_mode = %(mode)s where org_id = %(org_id)s;

-- name: rooms_with_wishes -> WishRoom
-- The rooms in which wishes were heard.
select distinct room_id from wishes where org_id = %(org_id)s and message_id is not null order by room_id;

-- name: anything_withheld -> Withholding
-- Whether anything is withheld in the org, also asked by who reads for a place.
select org_withholds() as is_any;

-- name: withheld_in_org -> Kept
-- All that is withheld in the org.
select distinct message_id from withheld where org_id = %(org_id)s;
