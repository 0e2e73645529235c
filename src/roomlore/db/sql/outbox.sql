-- name: append_added_messages
with numbered as (
  select
    room_id, id, sent_at, sequence,
    (row_number() over (partition by room_id order by sent_at, sequence, id) - 1) / %(most)s as part
  from pg_temp.incoming
),
noted as (
  insert into outbox (org_id, room_id, kind, subject_ids)
  select %(org_id)s, room_id, 'message.added', array_agg(id order by sent_at, sequence, id)
  from numbered
  group by room_id, part
  returning id
)
select pg_notify('roomlore_changes', %(org_id)s::uuid::text) where exists (select from noted);

-- name: append_changes
-- Extends the changes of this transaction that have the same kind and room.
-- Uses index: changes_in_order
with existing as materialized (
  select id, room_id, subject_ids
  from outbox
  where org_id = %(org_id)s and xid = pg_current_xact_id() and kind = %(kind)s
),
subjects as (
  (
    select messages.room_id, messages.id
    from messages
    where %(kind)s like 'message.%%' and org_id = %(org_id)s and id = any (%(ids)s::uuid[])
    union
    select message.room_id, memories.id
    from memories
    left join memory_sources as source on source.org_id = memories.org_id and source.memory_id = memories.id
    left join messages as message on message.org_id = source.org_id and message.id = source.message_id
    where %(kind)s like 'memory.%%' and memories.org_id = %(org_id)s and memories.id = any (%(ids)s::uuid[])
    union
    select conversations.room_id, conversations.id
    from conversations
    where %(kind)s like 'conversation.%%' and org_id = %(org_id)s and id = any (%(ids)s::uuid[])
  )
  except
  select existing.room_id, named.id from existing cross join lateral unnest(existing.subject_ids) as named (id)
),
-- the change of each room that has space left
begun as (
  select distinct on (room_id) id, room_id, cardinality(subject_ids) as size
  from existing
  where cardinality(subject_ids) < %(most)s
  order by room_id, id
),
numbered as (
  select
    subjects.room_id, subjects.id, begun.id as begun_id,
    (row_number() over (partition by subjects.room_id order by subjects.id) - 1 + coalesce(begun.size, 0)) / %(most)s as part
  from subjects
  left join begun on begun.room_id is not distinct from subjects.room_id
),
grouped as (
  select room_id, case when part = 0 then begun_id end as begun_id, array_agg(id order by id) as subject_ids
  from numbered
  group by room_id, part, begun_id
),
widened as (
  update outbox
  set subject_ids = outbox.subject_ids || grouped.subject_ids
  from grouped
  where outbox.org_id = %(org_id)s and outbox.id = grouped.begun_id
),
noted as (
  insert into outbox (org_id, room_id, kind, subject_ids)
  select %(org_id)s, room_id, %(kind)s, subject_ids from grouped where begun_id is null
)
select pg_notify('roomlore_changes', %(org_id)s::uuid::text) where exists (select from grouped);

-- name: current_cursor
-- Changes of transactions that are still running come after this cursor.
select
  (pg_snapshot_xmin(pg_current_snapshot())::text::numeric - 1)::text as xid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid as id,
  pg_current_snapshot()::text as seen, null::uuid as since;

-- name: cursor_since
select
  (least(
    (select xid from outbox where org_id = %(org_id)s and id >= %(change_id)s order by outbox.xid limit 1),
    pg_snapshot_xmin(pg_current_snapshot())
  )::text::numeric - 1)::text as xid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid as id,
  null::text as seen, %(change_id)s::uuid as since;

-- name: siblings
-- Uses index: changes_in_order
select sibling.id, sibling.xid::text as xid, sibling.room_id, sibling.kind, sibling.subject_ids, sibling.noted_at, true as is_settled
from outbox as named
join outbox as sibling
  on sibling.org_id = named.org_id
  and sibling.xid = named.xid
  and sibling.kind = named.kind
  and sibling.room_id is not distinct from named.room_id
where named.org_id = %(org_id)s and named.id = %(change_id)s and named.xid < pg_snapshot_xmin(pg_current_snapshot())
order by sibling.id;

-- name: read_after
-- Returns no change of a transaction that is still running. The changes of a transaction are never split.
-- Uses index: changes_in_order
with found as materialized (
  select id, xid, room_id, kind, subject_ids, noted_at
  from outbox
  where org_id = %(org_id)s
    and (xid, id) > (%(xid)s::text::xid8, %(id)s)
    and (%(seen)s::text is null or not pg_visible_in_snapshot(xid, %(seen)s::text::pg_snapshot))
    and id >= coalesce(%(since)s::uuid, '00000000-0000-0000-0000-000000000000')
    and (%(room_id)s::uuid is null or room_id = %(room_id)s)
  order by outbox.xid
  fetch first (%(limit)s) rows with ties
)
select
  id, xid::text as xid, room_id, kind, subject_ids, noted_at,
  xid < pg_snapshot_xmin(pg_current_snapshot()) as is_settled
from found
order by found.xid, found.id;

-- name: visible_ids
select id from messages where org_id = %(org_id)s and id = any (%(ids)s::uuid[])
union all
select id from memories where org_id = %(org_id)s and id = any (%(ids)s::uuid[])
union all
select id from conversations where org_id = %(org_id)s and id = any (%(ids)s::uuid[]);

-- name: remove_ids
-- Uses index: outbox_of_room
with gone as materialized (
  select distinct id from unnest(%(ids)s::uuid[]) as named (id)
),
around as materialized (
  select distinct room_id from messages where org_id = %(org_id)s and id = any (%(message_ids)s::uuid[])
),
naming as materialized (
  select distinct outbox.id
  from outbox
  cross join lateral unnest(outbox.subject_ids) as named (id)
  join gone on gone.id = named.id
  where outbox.org_id = %(org_id)s
    and outbox.kind like %(what)s || '.%%'
    and (%(message_ids)s::uuid[] is null or outbox.room_id in (select room_id from around))
),
remaining as (
  select outbox.id, array_agg(named.id order by named.place) filter (where gone.id is null) as subject_ids
  from naming
  join outbox on outbox.org_id = %(org_id)s and outbox.id = naming.id
  cross join lateral unnest(outbox.subject_ids) with ordinality as named (id, place)
  left join gone on gone.id = named.id
  group by outbox.id
),
emptied as (
  delete from outbox
  using remaining
  where outbox.org_id = %(org_id)s and outbox.id = remaining.id and remaining.subject_ids is null
)
update outbox
set subject_ids = remaining.subject_ids
from remaining
where outbox.org_id = %(org_id)s and outbox.id = remaining.id and remaining.subject_ids is not null;

-- name: gone_conversations
-- Uses index: outbox_of_room
select distinct named.id
from outbox
cross join lateral unnest(outbox.subject_ids) as named (id)
where outbox.org_id = %(org_id)s
  and outbox.kind = 'conversation.changed'
  and outbox.room_id in (
    select messages.room_id from messages where messages.org_id = %(org_id)s and messages.id = any (%(message_ids)s::uuid[])
  )
  and not exists (select from conversations where conversations.org_id = %(org_id)s and conversations.id = named.id);

-- name: drop_before
delete from outbox where org_id = %(org_id)s and id < %(change_id)s;
