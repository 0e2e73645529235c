-- name: lock_shared
select pg_advisory_xact_lock_shared(hashtextextended('erasure ' || %(org_id)s::text, 0));

-- name: lock_exclusive
select pg_advisory_xact_lock(hashtextextended('erasure ' || %(org_id)s::text, 0));

-- name: begin_dry_run
select
  pg_try_advisory_xact_lock(hashtextextended('look ' || %(org_id)s::text, 0)) as is_alone,
  set_config('roomlore.dry_run', 'on', true) as looks,
  set_config('lock_timeout', '2s', true) as waits,
  set_config('statement_timeout', '20s', true) as takes;

-- name: add_range
insert into erased_ranges (org_id, room_id, since, until, erased_at)
values (%(org_id)s, %(room_id)s, coalesce(%(since)s::timestamptz, '-infinity'), %(until)s, %(at)s)
on conflict do nothing;

-- name: drop_digests
delete from erased_accounts where org_id = %(org_id)s and digest = any (%(digests)s::bytea[]);

-- name: add_digests
insert into erased_accounts (org_id, digest, erased_at)
select %(org_id)s, unnest(%(digests)s::bytea[]), %(at)s;

-- name: erased_kinds
select
  exists (select 1 from erased_accounts where org_id = %(org_id)s) as accounts,
  exists (select 1 from erased_ranges where org_id = %(org_id)s) as ranges,
  exists (select 1 from messages where org_id = %(org_id)s and author_id = %(org_id)s) as tombstones,
  exists (select 1 from rooms where org_id = %(org_id)s and retention_period is not null) as retention,
  exists (select 1 from erased_rooms where org_id = %(org_id)s) as rooms;

-- name: erased_digests
select digest, erased_at
from erased_accounts
where org_id = %(org_id)s and digest = any (%(digests)s::bytea[]);

-- name: erased_ranges
select
  rooms.platform, rooms.external_id as room, nullif(erased_ranges.since, '-infinity') as since,
  erased_ranges.until
from unnest(%(rooms_1)s::text[], %(rooms_2)s::text[]) as asked (platform, room)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room
join erased_ranges on erased_ranges.org_id = %(org_id)s and erased_ranges.room_id = rooms.id;

-- name: tombstones
-- One index lookup for each message: the planner does not know how many tombstones there are, and might scan all of
-- them each time.
select asked.platform, asked.room, asked.external_id
from unnest(%(names_1)s::text[], %(names_2)s::text[], %(names_3)s::text[])
  as asked (platform, room, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room
cross join lateral (
  select messages.erased_at
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.external_id = asked.external_id
  offset 0
) as held
where held.erased_at is not null;

-- name: add_name_digests
insert into erased_names (org_id, digest, erased_at)
select %(org_id)s, unnest(%(digests)s::bytea[]), %(at)s
on conflict (org_id, digest) do nothing;

-- name: has_names
select exists (select 1 from erased_names where org_id = %(org_id)s) as is_any;

-- name: erased_name_digests
select digest from erased_names where org_id = %(org_id)s and digest = any (%(digests)s::bytea[]);

-- name: distinctive_words
select asked.word
from unnest(%(words)s::text[]) as asked (word)
where ts_lexize('english_stem', asked.word) <> '{}';
