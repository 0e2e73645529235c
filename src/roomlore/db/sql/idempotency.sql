-- What was asked for under a key of the caller's own, and what came of it.

-- name: claim -> Claim
-- Claim a digest that nobody has claimed, or whose claim has expired and may be made again.
insert into idempotency (org_id, digest, request, claim, claimed_at)
values (%(org_id)s, %(digest)s, %(request)s, %(claim)s, %(now)s)
on conflict (org_id, digest) do update
set request = excluded.request, claim = excluded.claim, claimed_at = excluded.claimed_at, status = null, body = null,
  place = null
where idempotency.claimed_at < %(kept_since)s
  or (
    idempotency.status is null and idempotency.claimed_at < %(held_since)s
    and idempotency.request = excluded.request and %(may_repeat)s
  )
returning claim;

-- name: drop_expired
-- Drop a few of those that are known no longer, so that they go wherever no worker is.
delete from idempotency
where org_id = %(org_id)s and digest in (
  select digest
  from idempotency
  where org_id = %(org_id)s and claimed_at < %(before)s
  order by claimed_at
  limit %(most)s
  for update skip locked
);

-- name: drop_more
-- Drop the oldest of one caller's, where there are more than so many.
delete from idempotency
where org_id = %(org_id)s and digest in (
  select digest
  from idempotency
  where org_id = %(org_id)s and digest between %(first)s and %(last)s
  order by claimed_at desc, digest desc
  offset %(most)s
);

-- name: find -> StoredResponse
-- What came of what was asked for under a digest.
select request, claimed_at, status, body, place
from idempotency
where org_id = %(org_id)s and digest = %(digest)s;

-- name: settle
-- Keep what came of it.
update idempotency
set status = %(status)s, body = %(body)s, place = %(place)s
where org_id = %(org_id)s and digest = %(digest)s and claim = %(claim)s;

-- name: release
-- Let it be asked for again.
delete from idempotency where org_id = %(org_id)s and digest = %(digest)s and claim = %(claim)s;

-- name: drop_before
-- Drop what was asked for before a time.
delete from idempotency where org_id = %(org_id)s and claimed_at < %(before)s;
