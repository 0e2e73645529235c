-- name: by_legacy_key
select
  legacy.key,
  memories.id,
  memories.status,
  memories.audience
from memories
cross join lateral jsonb_object_keys(memories.metadata) as legacy (key)
where memories.org_id = %(org_id)s and starts_with(legacy.key, %(prefix)s);
