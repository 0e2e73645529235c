-- name: find
select
  rooms.platform,
  rooms.external_id as room,
  messages.external_id,
  account.account_id as author,
  messages.author_kind,
  messages.sent_at,
  messages.redacted_at is not null or messages.erased_at is not null as is_removed,
  messages.metadata -> 'platform' ->> 'legacy_id' as legacy_id,
  md5(messages.body) as body_digest
from unnest(%(keys_1)s::text[], %(keys_2)s::text[], %(keys_3)s::text[]) as wanted (platform, room, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = wanted.platform and rooms.external_id = wanted.room
join messages
  on messages.org_id = rooms.org_id and messages.room_id = rooms.id and messages.external_id = wanted.external_id
left join lateral (
  select platform_accounts.account_id
  from platform_accounts
  where platform_accounts.org_id = messages.org_id and platform_accounts.participant_id = messages.author_id
  order by platform_accounts.platform <> rooms.platform, platform_accounts.account_id
  limit 1
) as account on true;

-- name: contents
select
  rooms.platform,
  rooms.external_id as room,
  messages.external_id,
  rooms.kind as room_kind,
  messages.author_name,
  messages.body,
  messages.edited_at is not null as is_edited,
  messages.metadata,
  replies.parent_external_id as stated_parent,
  parents.external_id as parent
from unnest(%(keys_1)s::text[], %(keys_2)s::text[], %(keys_3)s::text[]) as wanted (platform, room, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = wanted.platform and rooms.external_id = wanted.room
join messages
  on messages.org_id = rooms.org_id and messages.room_id = rooms.id and messages.external_id = wanted.external_id
left join replies
  on replies.org_id = messages.org_id and replies.child_id = messages.id and replies.method = 'explicit'
left join messages as parents
  on parents.org_id = replies.org_id and parents.id = replies.parent_id;

-- name: counts
select
  rooms.platform,
  rooms.external_id as room,
  count(messages.id) as messages
from unnest(%(keys_1)s::text[], %(keys_2)s::text[]) as wanted (platform, room)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = wanted.platform and rooms.external_id = wanted.room
left join messages
  on messages.org_id = rooms.org_id and messages.room_id = rooms.id
group by rooms.platform, rooms.external_id;
