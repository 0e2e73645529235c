-- Which workers were there lately. Runs for the operator.

-- name: beat
-- Note that a worker came by.
insert into heartbeats (org_id, worker_id, started_at, seen_at)
values (%(org_id)s, %(worker_id)s, %(started_at)s, now())
on conflict (org_id, worker_id) do update set seen_at = now();

-- name: drop_stale
-- Forget workers that were not seen for so long.
delete from heartbeats where org_id = %(org_id)s and seen_at < now() - %(kept)s::interval;

-- name: end
-- Forget a worker that ended in order.
delete from heartbeats where org_id = %(org_id)s and worker_id = %(worker_id)s;

-- name: newest -> Heartbeat
-- The workers that were seen last.
select worker_id, started_at, seen_at
from heartbeats
where org_id = %(org_id)s
order by seen_at desc, worker_id
limit %(limit)s;
