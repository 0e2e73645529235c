-- What was erased and stays out: accounts, stretches of rooms, holes; how long rooms keep what was said.

-- name: keep_erasures_out
-- Wait for an erasure that is under way, and let the next one wait until the transaction ends.
select pg_advisory_xact_lock_shared(hashtextextended('erasure ' || %(org_id)s::text, 0));

-- name: keep_writers_out
-- Wait for those who are writing, and let others wait until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('erasure ' || %(org_id)s::text, 0));

-- name: begin_look -> DryRunSettings
-- Whether nobody else of the org looks what would go; until the transaction ends nothing is waited for long, nor
-- takes long.
select
  pg_try_advisory_xact_lock(hashtextextended('look ' || %(org_id)s::text, 0)) as is_alone,
  set_config('roomlore.looking', 'on', true) as looks,
  set_config('lock_timeout', '2s', true) as waits,
  set_config('statement_timeout', '20s', true) as takes;

-- name: remember_range
-- Keep a stretch of a room out from now on.
insert into erased_ranges (org_id, room_id, since, until, erased_at)
values (%(org_id)s, %(room_id)s, coalesce(%(since)s::timestamptz, '-infinity'), %(until)s, %(at)s)
on conflict do nothing;

-- name: forget_accounts
-- Let go of digests that are to be remembered anew.
delete from erased_accounts where org_id = %(org_id)s and digest = any (%(digest)s::bytea[]);

-- name: remember_accounts
-- Keep out what these accounts have said so far.
insert into erased_accounts (org_id, digest, erased_at)
select %(org_id)s, unnest(%(digest)s::bytea[]), %(at)s;

-- name: removals -> ErasedKinds
-- Whether anything at all is to be kept out of an org.
select
  exists (select 1 from erased_accounts where org_id = %(org_id)s) as accounts,
  exists (select 1 from erased_ranges where org_id = %(org_id)s) as ranges,
  exists (select 1 from messages where org_id = %(org_id)s and author_id = %(org_id)s) as holes,
  exists (select 1 from rooms where org_id = %(org_id)s and keep_for is not null) as keeping,
  exists (select 1 from erased_rooms where org_id = %(org_id)s) as rooms;

-- name: erased_accounts -> ErasedAccount
-- Those of these digests that are of erased accounts.
select digest, erased_at
from erased_accounts
where org_id = %(org_id)s and digest = any (%(digest)s::bytea[]);

-- name: erased_ranges -> ErasedRange
-- The stretches of these rooms that are kept out.
select
  rooms.platform, rooms.external_id as room, nullif(erased_ranges.since, '-infinity') as since,
  erased_ranges.until
from unnest(%(platform)s::text[], %(room)s::text[]) as asked (platform, room)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.room
join erased_ranges on erased_ranges.org_id = %(org_id)s and erased_ranges.room_id = rooms.id;

-- name: holes -> TombstoneName
-- Those of these places in rooms that are holes. Each place is looked up by its own: the planner, who does not
-- know how many holes there are, might go through all of them for every one.
select asked.platform, asked.room, asked.external_id
from unnest(%(platform)s::text[], %(room)s::text[], %(external_id)s::text[])
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

-- name: keeping_rooms -> RoomWithRetention
-- Rooms that keep what was said for a time only, and since when they keep it. A shorter time than before does not count
-- until its time of grace is over, by the clock of the database.
select id as room_id, platform, external_id as room, %(now)s::timestamptz - in_force.keep_for as kept_since
from rooms
cross join lateral (
  select case when retention_starts_at > now() then kept_for_before else rooms.keep_for end as keep_for
) as in_force
where org_id = %(org_id)s
  and in_force.keep_for is not null
  and (%(room_id)s::uuid is null or id = %(room_id)s)
order by id;

-- name: kept_by -> RetentionRow
-- How long a room keeps what was said, by the clock of the database. Whoever changes it meanwhile is waited for.
select
  keep_for,
  case when retention_starts_at > now() then kept_for_before end as before,
  case when retention_starts_at > now() then retention_starts_at end as starts_at,
  now() as now
from rooms
where org_id = %(org_id)s and id = %(room_id)s
for update;

-- name: keeping_of -> RetentionRow
-- The same, for who only looks.
select
  keep_for,
  case when retention_starts_at > now() then kept_for_before end as before,
  case when retention_starts_at > now() then retention_starts_at end as starts_at,
  now() as now
from rooms
where org_id = %(org_id)s and id = %(room_id)s;

-- name: keep
-- Say how long a room keeps what was said, and from when on.
update rooms
set
  keep_for = %(keep_for)s::interval,
  kept_for_before = %(before)s::interval,
  retention_starts_at = %(starts_at)s::timestamptz
where org_id = %(org_id)s and id = %(room_id)s;

-- name: said_before -> OldMessages
-- How much was said in a room before a time, and of which times it is; holes do not count.
-- Uses index: messages_in_order
select count(*) as messages, min(sent_at) as oldest_at, max(sent_at) as newest_at
from messages
where org_id = %(org_id)s and room_id = %(room_id)s and sent_at < %(before)s and erased_at is null;

-- The words by which erased persons were called, and where names stand besides what was said.

-- name: remember
-- Let nothing derived say these words any more.
insert into erased_names (org_id, digest, erased_at)
select %(org_id)s, unnest(%(digest)s::bytea[]), %(at)s
on conflict (org_id, digest) do nothing;

-- name: are_any -> AnyNames
-- Whether anybody was erased by name.
select exists (select 1 from erased_names where org_id = %(org_id)s) as is_any;

-- name: among -> NameDigest
-- Those of these digests that are of words of erased names.
select digest from erased_names where org_id = %(org_id)s and digest = any (%(digest)s::bytea[]);

-- name: telling -> DistinctiveWord
-- Those of these words that are no small ones, such as stand in every text.
select asked.word
from unnest(%(words)s::text[]) as asked (word)
where ts_lexize('english_stem', asked.word) <> '{}';

-- name: tags_saying -> TagRow
-- Tags of memories that have one of these strings in them, in any case.
select memory_tags.memory_id as id, memory_tags.tag
from memory_tags
where memory_tags.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(memory_tags.tag), lower(wanted.string)) > 0
  );

-- name: drop_tags
-- Take these tags off memories.
delete from memory_tags
using unnest(%(memory_id)s::uuid[], %(tag)s::text[]) as naming (memory_id, tag)
where memory_tags.org_id = %(org_id)s
  and memory_tags.memory_id = naming.memory_id
  and memory_tags.tag = naming.tag;

-- name: rooms_saying -> RoomText
-- Rooms of a platform with one of these strings in their name or topic, in any case.
select rooms.id, rooms.kind, rooms.name, rooms.topic
from rooms
where rooms.org_id = %(org_id)s
  and rooms.platform = %(platform)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(concat_ws(E'\n', rooms.name, rooms.topic)), lower(wanted.string)) > 0
  );

-- name: rename_rooms
-- Say anew what rooms are called and what they are for.
update rooms
set name = told.name, topic = told.topic
from unnest(%(id)s::uuid[], %(name)s::text[], %(topic)s::text[]) as told (id, name, topic)
where rooms.org_id = %(org_id)s and rooms.id = told.id;

-- name: keys_called -> KeyName
-- What keys are called that have one of these strings in their name, in any case.
select api_keys.name
from api_keys
where api_keys.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(api_keys.name), lower(wanted.string)) > 0
  );
