-- name: room_stats
-- Counts come from `activity`.
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

-- name: newest_message
select max(last_at) as sent_at, clock_timestamp() as now from activity where org_id = %(org_id)s;

-- name: vector_counts
-- Of several models the one with the most vectors counts.
-- Uses index: message_embeddings_in_room
select counted.room_id, max(counted.count) as count
from (
  select room_id, model, count(*) as count
  from message_embeddings
  where org_id = %(org_id)s
  group by room_id, model
) as counted
group by counted.room_id;

-- name: assigned_counts
select conversations.room_id, sum(placed.count)::bigint as count
from (
  select conversation_id, count(*) as count from placements where org_id = %(org_id)s group by conversation_id
) as placed
join conversations on conversations.org_id = %(org_id)s and conversations.id = placed.conversation_id
group by conversations.room_id;

-- name: queue_backlogs
select
  subjects.room_id, work.stage,
  count(*) filter (where work.set_aside_at is null) as waiting,
  count(*) filter (where work.set_aside_at is not null) as set_aside,
  min(work.asked_at) filter (where work.set_aside_at is null) as oldest_at
from work
cross join lateral (
  -- rooms are disentangled, all else is work on messages; memories are in no single room
  select work.subject_id as room_id
  where work.stage = 'untangle'
  union all
  select messages.room_id
  from messages
  where work.stage not in ('untangle', 'qdrant', 'neo4j') and messages.org_id = work.org_id and messages.id = work.subject_id
) as subjects
where work.org_id = %(org_id)s
group by subjects.room_id, work.stage;

-- name: projection_backlogs
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

-- name: rebuild_backlogs
-- Uses index: work_asked
select
  projection.target,
  case when projection.next_since is not null then (
    select count(*)
    from work
    where work.org_id = projection.org_id
      and work.stage = projection.target
      and work.set_aside_at is null
      and work.asked_at <= projection.next_since
  ) end as waiting
from projections as projection
where projection.org_id = %(org_id)s and projection.next_copy is not null;

-- name: room_samples
-- Uses indexes: messages_in_order, replies_from, replies_to
with newest as materialized (
  select
    rooms.id as room_id, message.id,
    coalesce(message.metadata -> 'platform' ? 'legacy_pair', false) as is_legacy,
    rooms.embedding_policy = 'exchange' and message.kind in ('message', 'whisper') and message.body ~ '\S' as may_be_carried
  from rooms
  cross join lateral (
    select messages.id, messages.kind, messages.body, messages.metadata
    from messages
    where messages.org_id = %(org_id)s and messages.room_id = rooms.id and messages.erased_at is null
    order by messages.sent_at desc, messages.native_order desc, messages.id desc
    limit %(sample)s
  ) as message
  where rooms.org_id = %(org_id)s
),
sampled as materialized (
  select
    newest.room_id, newest.is_legacy,
    above.id is not null as answers,
    below.id is not null as is_answered,
    newest.may_be_carried and (
      select needed.id
      from embeddable_messages as needed
      where needed.org_id = %(org_id)s and needed.id = newest.id
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
from sampled
group by room_id;

-- name: latencies
-- `several` stands for reads that looked into more than one room.
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

-- name: dead_letters
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

-- name: table_sizes
select
  coalesce(pg_partition_root(tables.oid)::oid, tables.oid)::regclass::text as what,
  sum(pg_total_relation_size(tables.oid))::bigint as bytes
from pg_class as tables
where tables.relnamespace = 'roomlore'::regnamespace and tables.relkind = 'r'
group by 1
order by bytes desc, what
limit %(limit)s;

-- name: database_size
select 'database' as what, pg_database_size(current_database()) as bytes;
