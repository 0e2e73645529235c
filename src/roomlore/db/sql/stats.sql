-- What the operator watches: how far each stage has come in each room, and how long reads take. Each statement goes
-- through its tables once, whatever the number of rooms.

-- name: ingested -> RoomStats
-- Every room with how much was said in it, as counted when it came in, and how long it keeps that. Of a room whose
-- retention has not begun, how many messages will go then.
-- Uses index: messages_in_order
select
  rooms.id as room_id, rooms.platform, rooms.external_id,
  called_room(rooms.workspace, rooms.name) as name, rooms.embedding_policy,
  coalesce(sum(activity.message_count), 0)::bigint as messages,
  rooms.keep_for,
  case when rooms.retention_starts_at > now() then rooms.kept_for_before end as kept_until_then,
  case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at,
  case
    when rooms.retention_starts_at > now() then (
      select count(*)
      from messages
      where messages.org_id = rooms.org_id
        and messages.room_id = rooms.id
        and messages.sent_at < rooms.retention_starts_at - rooms.keep_for
        and messages.erased_at is null
    )
  end as in_grace
from rooms
left join activity on activity.org_id = rooms.org_id and activity.room_id = rooms.id
where rooms.org_id = %(org_id)s
group by rooms.org_id, rooms.id
order by messages desc, rooms.id;

-- name: newest_said -> NewestMessage
-- When the newest message of all rooms was sent, and what time it is by the clock of the database.
select max(last_at) as sent_at, clock_timestamp() as now from activity where org_id = %(org_id)s;

-- name: vectors -> RoomCount
-- How many messages of each room have a vector of whatever model.
-- Uses index: message_embeddings_in_room
select counted.room_id, max(counted.count) as count
from (
  select room_id, model, count(*) as count
  from message_embeddings
  where org_id = %(org_id)s
  group by room_id, model
) as counted
group by counted.room_id;

-- name: untangled -> RoomCount
-- How many messages of each room stand in a conversation.
select conversations.room_id, sum(held.count)::bigint as count
from (
  select conversation_id, count(*) as count from placements where org_id = %(org_id)s group by conversation_id
) as held
join conversations on conversations.org_id = %(org_id)s and conversations.id = held.conversation_id
group by conversations.room_id;

-- name: waiting -> QueueBacklog
-- What is still to be done in each room, what was set aside, and since when the oldest of the rest has been waiting.
select
  subjects.room_id, work.stage,
  count(*) filter (where work.set_aside_at is null) as waiting,
  count(*) filter (where work.set_aside_at is not null) as set_aside,
  min(work.asked_at) filter (where work.set_aside_at is null) as oldest_at
from work
cross join lateral (
  -- rooms are untangled, all else is done with messages; memories, which are embedded as well, are of no one room
  select work.subject_id as room_id
  where work.stage = 'untangle'
  union all
  select messages.room_id
  from messages
  where work.stage not in ('untangle', 'qdrant', 'neo4j') and messages.org_id = work.org_id and messages.id = work.subject_id
) as subjects
where work.org_id = %(org_id)s
group by subjects.room_id, work.stage;

-- name: uncopied -> ProjectionBacklog
-- Of how many messages of each room something is still to be written to copies, or removed there, what a server would not
-- take, how many of all these are no holes, and since when the oldest of what waits has been waiting.
select
  messages.room_id, work.stage as target,
  count(*) filter (where work.set_aside_at is null) as waiting,
  count(*) filter (where work.set_aside_at is not null) as set_aside,
  count(*) filter (where messages.erased_at is null) as still_there,
  min(work.asked_at) filter (where work.set_aside_at is null) as oldest_at
from work
join messages on messages.org_id = work.org_id and messages.id = work.subject_id
where work.org_id = %(org_id)s and work.stage in ('qdrant', 'neo4j')
group by messages.room_id, work.stage;

-- name: building -> RebuildBacklog
-- How much of what copies are to hold that are being built is still to be written; null while it is still asked for.
-- Uses index: work_asked
select
  held.target,
  case when held.next_since is not null then (
    select count(*)
    from work
    where work.org_id = held.org_id
      and work.stage = held.target
      and work.set_aside_at is null
      and work.asked_at <= held.next_since
  ) end as waiting
from projections as held
where held.org_id = %(org_id)s and held.next_copy is not null;

-- name: looks -> RoomSample
-- Of the newest messages of each room how many are in exchanges of several, how many such exchanges there are, how
-- many another message carries, so that they need no vector, and how many came from pairs of an older store.
-- Uses indexes: messages_in_order, replies_from, replies_to
with newest as materialized (
  select
    rooms.id as room_id, said.id,
    coalesce(said.metadata -> 'platform' ? 'legacy_pair', false) as is_legacy,
    rooms.embedding_policy = 'exchange' and said.kind in ('message', 'whisper') and said.body ~ '\S' as may_be_carried
  from rooms
  cross join lateral (
    select messages.id, messages.kind, messages.body, messages.metadata
    from messages
    where messages.org_id = %(org_id)s and messages.room_id = rooms.id and messages.erased_at is null
    order by messages.sent_at desc, messages.native_order desc, messages.id desc
    limit %(sample)s
  ) as said
  where rooms.org_id = %(org_id)s
),
standing as materialized (
  select
    newest.room_id, newest.is_legacy,
    above.id is not null as answers,
    below.id is not null as is_answered,
    newest.may_be_carried and (
      select wanting.id
      from embeddable_messages as wanting
      where wanting.org_id = %(org_id)s and wanting.id = newest.id
    ) is null as is_carried
  from newest
  left join lateral (
    select edge.parent_id as id
    from exchange_edges as edge
    where edge.org_id = %(org_id)s and edge.child_id = newest.id
    limit 1
  ) as above on true
  left join lateral (
    select edge.child_id as id
    from exchange_edges as edge
    where edge.org_id = %(org_id)s and edge.parent_id = newest.id
    limit 1
  ) as below on true
)
select
  room_id,
  count(*) as looked_at,
  count(*) filter (where answers or is_answered) as in_exchanges,
  count(*) filter (where is_answered and not answers) as exchanges,
  count(*) filter (where is_carried) as carried,
  count(*) filter (where is_legacy) as legacy
from standing
group by room_id;

-- name: latencies -> Latency
-- How long the newest searches, answers and contexts took, by what the room embeds that was looked into; `several`
-- where it was more than one room.
-- Uses index: activity_log_timed
select
  timed.action, coalesce(rooms.embedding_policy, 'several') as format,
  count(*) as reads,
  percentile_cont(0.5) within group (order by timed.took_ms) as p50_ms,
  percentile_cont(0.95) within group (order by timed.took_ms) as p95_ms
from (
  select action, took_ms, subject_ids[1] as first_id
  from activity_log
  where org_id = %(org_id)s and took_ms is not null
  order by id desc
  limit %(newest)s
) as timed
left join rooms on rooms.org_id = %(org_id)s and rooms.id = timed.first_id
group by timed.action, format
order by timed.action, format;

-- name: failures -> DeadLetters
-- What was set aside after its last attempt, by stage and kind of error, most first.
-- Uses indexes: work_pkey, conversations_set_aside
select failed.stage, failed.error, count(*) as count, max(failed.at) as newest_at
from (
  select stage, coalesce(error, 'Unknown') as error, set_aside_at as at
  from work
  where org_id = %(org_id)s and set_aside_at is not null
  union all
  select 'extract', draw_error, null
  from conversations
  where org_id = %(org_id)s and draw_error is not null
) as failed
group by failed.stage, failed.error
order by count desc, failed.stage, failed.error
limit %(limit)s;

-- name: sizes -> Size
-- The largest tables of the database with their indexes, largest first; the parts of one together.
select
  coalesce(pg_partition_root(tables.oid)::oid, tables.oid)::regclass::text as what,
  sum(pg_total_relation_size(tables.oid))::bigint as bytes
from pg_class as tables
where tables.relnamespace = 'roomlore'::regnamespace and tables.relkind = 'r'
group by 1
order by bytes desc, what
limit %(limit)s;

-- name: database_size -> Size
-- How large all of the database is.
select 'database' as what, pg_database_size(current_database()) as bytes;
