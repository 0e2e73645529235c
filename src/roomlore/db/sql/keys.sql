-- name: add
insert into api_keys (org_id, id, name, role, participant_id, digest, created_at, expires_at)
values (
  %(org_id)s, %(id)s, %(name)s, %(role)s, %(participant_id)s, %(digest)s, %(created_at)s, %(expires_at)s
);

-- name: all_keys
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

-- name: keys_in_ranges
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

-- name: valid_key
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
  and id = %(key_id)s
  and revoked_at is null
  and (expires_at is null or expires_at > now());

-- name: revoke
update api_keys
set revoked_at = %(revoked_at)s
where org_id = %(org_id)s and id = %(key_id)s and revoked_at is null;

-- name: sign_in
select key_id, role, participant_id from sign_in(%(org_id)s, %(digest)s);
