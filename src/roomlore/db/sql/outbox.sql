-- What has changed: noted in the transaction of the change, read in the order of transactions.

-- name: note_added
-- Note the messages just added, so many in a change, and wake those who listen once this transaction commits.
with placed as (
  select
    room_id, id, sent_at, native_order,
    (row_number() over (partition by room_id order by sent_at, native_order, id) - 1) / %(most)s as part
  from pg_temp.incoming
),
noted as (
  insert into changes (org_id, room_id, kind, subject_ids)
  select %(org_id)s, room_id, 'message.added', array_agg(id order by sent_at, native_order, id)
  from placed
  group by room_id, part
  returning id
)
select pg_notify('roomlore_changes', %(org_id)s::uuid::text) where exists (select from noted);

-- name: note
-- Note what a change is about, beside what this transaction has noted of the same kind in the same room, so many in a
-- change; and wake those who listen.
-- Uses index: changes_in_order
with held as materialized (
  select id, room_id, subject_ids
  from changes
  where org_id = %(org_id)s and xid = pg_current_xact_id() and kind = %(kind)s
),
about as (
  (
    select messages.room_id, messages.id
    from messages
    where %(what)s = 'message' and org_id = %(org_id)s and id = any (%(ids)s::uuid[])
    union
    select said.room_id, memories.id
    from memories
    left join memory_sources as source on source.org_id = memories.org_id and source.memory_id = memories.id
    left join messages as said on said.org_id = source.org_id and said.id = source.message_id
    where %(what)s = 'memory' and memories.org_id = %(org_id)s and memories.id = any (%(ids)s::uuid[])
    union
    select conversations.room_id, conversations.id
    from conversations
    where %(what)s = 'conversation' and org_id = %(org_id)s and id = any (%(ids)s::uuid[])
  )
  except
  select held.room_id, named.id from held cross join lateral unnest(held.subject_ids) as named (id)
),
-- The change of each room that has space left.
begun as (
  select distinct on (room_id) id, room_id, cardinality(subject_ids) as size
  from held
  where cardinality(subject_ids) < %(most)s
  order by room_id, id
),
placed as (
  select
    about.room_id, about.id, begun.id as begun_id,
    (row_number() over (partition by about.room_id order by about.id) - 1 + coalesce(begun.size, 0)) / %(most)s as part
  from about
  left join begun on begun.room_id is not distinct from about.room_id
),
grouped as (
  select room_id, case when part = 0 then begun_id end as begun_id, array_agg(id order by id) as subject_ids
  from placed
  group by room_id, part, begun_id
),
widened as (
  update changes
  set subject_ids = changes.subject_ids || grouped.subject_ids
  from grouped
  where changes.org_id = %(org_id)s and changes.id = grouped.begun_id
),
noted as (
  insert into changes (org_id, room_id, kind, subject_ids)
  select %(org_id)s, room_id, %(kind)s, subject_ids from grouped where begun_id is null
)
select pg_notify('roomlore_changes', %(org_id)s::uuid::text) where exists (select from grouped);

-- name: now -> Snapshot
-- What was already over when this is asked.
select pg_current_snapshot()::text as seen, pg_snapshot_xmin(pg_current_snapshot())::text as xid;

-- name: first_since -> FirstTransaction
-- The first transaction that noted anything since an id was made, or that may still do so.
select least(
  (
    select xid
    from changes
    where org_id = %(org_id)s and id >= %(id)s
    order by changes.xid
    limit 1
  ),
  pg_snapshot_xmin(pg_current_snapshot())
)::text as xid;

-- name: beside -> Change
-- A change by its id, with those of the same kind that its transaction noted of the room, in order; if every transaction
-- that may stand before it is over.
-- Uses index: changes_in_order
select near.id, near.xid::text as xid, near.room_id, near.kind, near.subject_ids, near.noted_at, true as is_settled
from changes as meant
join changes as near
  on near.org_id = meant.org_id
  and near.xid = meant.xid
  and near.kind = meant.kind
  and near.room_id is not distinct from meant.room_id
where meant.org_id = %(org_id)s and meant.id = %(id)s and meant.xid < pg_snapshot_xmin(pg_current_snapshot())
order by near.id;

-- name: after -> Change
-- What has changed after a place, in order, each transaction whole; up to where a transaction still runs that may stand
-- before it.
-- Uses index: changes_in_order
with found as materialized (
  select id, xid, room_id, kind, subject_ids, noted_at
  from changes
  where org_id = %(org_id)s
    and (xid, id) > (%(xid)s::text::xid8, %(id)s)
    and (%(seen)s::text is null or not pg_visible_in_snapshot(xid, %(seen)s::text::pg_snapshot))
    and id >= coalesce(%(since)s::uuid, '00000000-0000-0000-0000-000000000000')
    and (%(room_id)s::uuid is null or room_id = %(room_id)s)
  order by changes.xid
  fetch first (%(limit)s) rows with ties
)
select
  id, xid::text as xid, room_id, kind, subject_ids, noted_at,
  xid < pg_snapshot_xmin(pg_current_snapshot()) as is_settled
from found
order by found.xid, found.id;

-- name: visible -> VisibleSubject
-- Which of these messages, memories and conversations the viewer may see.
select id from messages where org_id = %(org_id)s and id = any (%(ids)s::uuid[])
union all
select id from memories where org_id = %(org_id)s and id = any (%(ids)s::uuid[])
union all
select id from conversations where org_id = %(org_id)s and id = any (%(ids)s::uuid[]);

-- name: forget
-- Take ids of what is gone out of changes of some kinds, of the rooms of some messages or of all; one of which nothing is
-- left goes.
-- Uses index: changes_of_room
with gone as materialized (
  select distinct id from unnest(%(ids)s::uuid[]) as named (id)
),
around as materialized (
  select distinct room_id from messages where org_id = %(org_id)s and id = any (%(message_ids)s::uuid[])
),
naming as materialized (
  select distinct changes.id
  from changes
  cross join lateral unnest(changes.subject_ids) as named (id)
  join gone on gone.id = named.id
  where changes.org_id = %(org_id)s
    and changes.kind = any (%(kinds)s::text[])
    and (%(message_ids)s::uuid[] is null or changes.room_id in (select room_id from around))
),
remaining as (
  select changes.id, array_agg(named.id order by named.place) filter (where gone.id is null) as subject_ids
  from naming
  join changes on changes.org_id = %(org_id)s and changes.id = naming.id
  cross join lateral unnest(changes.subject_ids) with ordinality as named (id, place)
  left join gone on gone.id = named.id
  group by changes.id
),
emptied as (
  delete from changes
  using remaining
  where changes.org_id = %(org_id)s and changes.id = remaining.id and remaining.subject_ids is null
)
update changes
set subject_ids = remaining.subject_ids
from remaining
where changes.org_id = %(org_id)s and changes.id = remaining.id and remaining.subject_ids is not null;

-- name: gone_conversations -> VisibleSubject
-- Conversations that are named in changes in the rooms of some messages and are not there any more.
-- Uses index: changes_of_room
select distinct named.id
from changes
cross join lateral unnest(changes.subject_ids) as named (id)
where changes.org_id = %(org_id)s
  and changes.kind = 'conversation.changed'
  and changes.room_id in (
    select messages.room_id from messages where messages.org_id = %(org_id)s and messages.id = any (%(message_ids)s::uuid[])
  )
  and not exists (select from conversations where conversations.org_id = %(org_id)s and conversations.id = named.id);

-- name: drop_before
-- Drop changes that were noted before an id was made.
delete from changes where org_id = %(org_id)s and id < %(id)s;
