-- name: claim
insert into idempotency (org_id, digest, request, claim, claimed_at)
values (%(org_id)s, %(digest)s, %(request)s, %(claimed)s, %(now)s)
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
delete from idempotency
where org_id = %(org_id)s and digest in (
  select digest
  from idempotency
  where org_id = %(org_id)s and claimed_at < %(before)s
  order by claimed_at
  limit %(limit)s
  for update skip locked
);

-- name: drop_oldest
delete from idempotency
where org_id = %(org_id)s and digest in (
  select digest
  from idempotency
  where org_id = %(org_id)s and digest between %(first)s and %(last)s
  order by claimed_at desc, digest desc
  offset %(kept)s
);

-- name: find
select request, claimed_at, status, body, place
from idempotency
where org_id = %(org_id)s and digest = %(digest)s;

-- name: store_response
update idempotency
set status = %(status)s, body = %(body)s, place = %(place)s
where org_id = %(org_id)s and digest = %(digest)s and claim = %(claimed)s;

-- name: release
delete from idempotency where org_id = %(org_id)s and digest = %(digest)s and claim = %(claimed)s;

-- name: drop_before
delete from idempotency where org_id = %(org_id)s and claimed_at < %(before)s;
