-- name: rooms_with_retention
select id as room_id, platform, external_id as room, %(now)s::timestamptz - in_force.retention_period as kept_since
from rooms
cross join lateral (
  select case when retention_starts_at > now() then previous_retention_period else rooms.retention_period end as retention_period
) as in_force
where org_id = %(org_id)s
  and in_force.retention_period is not null
  and (%(room_id)s::uuid is null or id = %(room_id)s)
order by id;

-- name: lock_retention
select now() from rooms where org_id = %(org_id)s and id = %(room_id)s for update;

-- name: find_retention
select
  retention_period,
  case when retention_starts_at > now() then previous_retention_period end as before,
  case when retention_starts_at > now() then retention_starts_at end as starts_at
from rooms
where org_id = %(org_id)s and id = %(room_id)s;

-- name: set_retention
update rooms
set
  retention_period = %(retention_period)s::interval,
  previous_retention_period = %(before)s::interval,
  retention_starts_at = %(starts_at)s::timestamptz
where org_id = %(org_id)s and id = %(room_id)s;

-- name: messages_before
-- Uses index: messages_in_order
select count(*) as messages, min(sent_at) as oldest_at, max(sent_at) as newest_at
from messages
where org_id = %(org_id)s and room_id = %(room_id)s and sent_at < %(before)s and erased_at is null;
