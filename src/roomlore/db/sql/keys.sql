-- Keys: who may come in. Only digests are stored.

-- name: add
-- Add a key.
insert into api_keys (org_id, id, name, role, participant_id, digest, created_at, expires_at)
values (
  %(org_id)s, %(id)s, %(name)s, %(role)s, %(participant_id)s, %(digest)s, %(created_at)s, %(expires_at)s
);

-- name: all_keys -> ApiKey
-- Every key of the org, newest first.
select
  id, name, role, participant_id,
  (
    select participants.name
    from participants
    where participants.org_id = api_keys.org_id and participants.id = api_keys.participant_id
  ) as participant_name,
  created_at, expires_at, revoked_at
from api_keys
where org_id = %(org_id)s
order by id desc;

-- name: find_keys -> ApiKey
-- The keys whose ids begin or end so.
select
  id, name, role, participant_id,
  (
    select participants.name
    from participants
    where participants.org_id = api_keys.org_id and participants.id = api_keys.participant_id
  ) as participant_name,
  created_at, expires_at, revoked_at
from api_keys
where org_id = %(org_id)s
  and (
    id between %(low)s and %(high)s
    or id_from_end between %(end_low)s and %(end_high)s
  )
order by id;

-- name: valid_key -> ApiKey
-- This key, unless it has expired or was revoked.
select
  id, name, role, participant_id,
  (
    select participants.name
    from participants
    where participants.org_id = api_keys.org_id and participants.id = api_keys.participant_id
  ) as participant_name,
  created_at, expires_at, revoked_at
from api_keys
where org_id = %(org_id)s
  and id = %(id)s
  and revoked_at is null
  and (expires_at is null or expires_at > now());

-- name: revoke
-- Make a key invalid; one that was revoked before keeps its time.
update api_keys
set revoked_at = %(revoked_at)s
where org_id = %(org_id)s and id = %(id)s and revoked_at is null;

-- name: sign_in -> KeySession
-- Whose key this is, if it is valid.
select key_id, role, participant_id from sign_in(%(org_id)s, %(digest)s);
