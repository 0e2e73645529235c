-- name: room_stats
-- Counts come from `room_activity`.
-- Uses index: messages_in_order
select
  rooms.id as room_id, rooms.platform, rooms.external_id,
  called_room(rooms.workspace, rooms.name) as name, rooms.embedding_policy,
  coalesce(sum(room_activity.message_count), 0)::bigint as messages,
  rooms.retention_period,
  case when rooms.retention_starts_at > now() then rooms.previous_retention_period end as current_retention_period,
  case when rooms.retention_starts_at > now() then rooms.retention_starts_at end as retention_starts_at,
  case
    when rooms.retention_starts_at > now() then (
      select count(*)
      from messages
      where messages.org_id = rooms.org_id
        and messages.room_id = rooms.id
        and messages.sent_at < rooms.retention_starts_at - rooms.retention_period
        and messages.erased_at is null
    )
  end as expiring_messages
from rooms
left join room_activity on room_activity.org_id = rooms.org_id and room_activity.room_id = rooms.id
where rooms.org_id = %(org_id)s
group by rooms.org_id, rooms.id
order by messages desc, rooms.id;

-- name: newest_message
select max(last_at) as sent_at, clock_timestamp() as now from room_activity where org_id = %(org_id)s;

-- name: vector_counts
-- If there are several models, the one with the most vectors is counted.
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
  select conversation_id, count(*) as count from conversation_messages where org_id = %(org_id)s group by conversation_id
) as placed
join conversations on conversations.org_id = %(org_id)s and conversations.id = placed.conversation_id
group by conversations.room_id;

-- name: queue_backlogs
select
  subjects.room_id, work_queue.queue,
  count(*) filter (where work_queue.dead_lettered_at is null) as waiting,
  count(*) filter (where work_queue.dead_lettered_at is not null) as dead_lettered,
  min(work_queue.asked_at) filter (where work_queue.dead_lettered_at is null) as oldest_at
from work_queue
cross join lateral (
  -- disentanglement works on rooms, all other queues on messages; memories do not belong to one room
  select work_queue.subject_id as room_id
  where work_queue.queue = 'disentangle'
  union all
  select messages.room_id
  from messages
  where work_queue.queue not in ('disentangle', 'qdrant', 'neo4j') and messages.org_id = work_queue.org_id and messages.id = work_queue.subject_id
) as subjects
where work_queue.org_id = %(org_id)s
group by subjects.room_id, work_queue.queue;

-- name: projection_backlogs
select
  messages.room_id, work_queue.queue as target,
  count(*) filter (where work_queue.dead_lettered_at is null) as waiting,
  count(*) filter (where work_queue.dead_lettered_at is not null) as dead_lettered,
  count(*) filter (where messages.erased_at is null) as still_there,
  min(work_queue.asked_at) filter (where work_queue.dead_lettered_at is null) as oldest_at
from work_queue
join messages on messages.org_id = work_queue.org_id and messages.id = work_queue.subject_id
where work_queue.org_id = %(org_id)s and work_queue.queue in ('qdrant', 'neo4j')
group by messages.room_id, work_queue.queue;

-- name: rebuild_backlogs
-- Uses index: work_asked
select
  projection.target,
  case when projection.next_since is not null then (
    select count(*)
    from work_queue
    where work_queue.org_id = projection.org_id
      and work_queue.queue = projection.target
      and work_queue.dead_lettered_at is null
      and work_queue.asked_at <= projection.next_since
  ) end as waiting
from projections as projection
where projection.org_id = %(org_id)s and projection.next_index_name is not null;

-- name: room_samples
-- Uses indexes: messages_in_order, replies_from, replies_to
with newest as materialized (
  select
    rooms.id as room_id, message.id,
    coalesce(message.metadata -> 'platform' ? 'legacy_pair', false) as is_legacy,
    rooms.embedding_policy = 'thread' and message.kind in ('message', 'whisper') and message.body ~ '\S' as may_be_carried
  from rooms
  cross join lateral (
    select messages.id, messages.kind, messages.body, messages.metadata
    from messages
    where messages.org_id = %(org_id)s and messages.room_id = rooms.id and messages.erased_at is null
    order by messages.sent_at desc, messages.sequence desc, messages.id desc
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
    from thread_edges as edge
    where edge.org_id = %(org_id)s and edge.child_id = newest.id
    limit 1
  ) as above on true
  left join lateral (
    select edge.child_id as id
    from thread_edges as edge
    where edge.org_id = %(org_id)s and edge.parent_id = newest.id
    limit 1
  ) as below on true
)
select
  room_id,
  count(*) as sampled,
  count(*) filter (where answers or is_answered) as in_threads,
  count(*) filter (where is_answered and not answers) as threads,
  count(*) filter (where is_carried) as carried,
  count(*) filter (where is_legacy) as legacy
from sampled
group by room_id;

-- name: latencies
-- `several` stands for reads that covered more than one room.
-- Uses index: activity_log_timed
select
  timed.action, coalesce(rooms.embedding_policy, 'several') as format,
  count(*) as reads,
  percentile_cont(0.5) within group (order by timed.took_ms) as p50_ms,
  percentile_cont(0.95) within group (order by timed.took_ms) as p95_ms
from (
  select action, took_ms, subject_ids[1] as first_id
  from audit_log
  where org_id = %(org_id)s and took_ms is not null
  order by id desc
  limit %(newest)s
) as timed
left join rooms on rooms.org_id = %(org_id)s and rooms.id = timed.first_id
group by timed.action, format
order by timed.action, format;

-- name: dead_letters
-- Uses indexes: work_pkey, conversations_extraction_failed
select failed.queue, failed.error, count(*) as count, max(failed.at) as newest_at
from (
  select queue, coalesce(error, 'Unknown') as error, dead_lettered_at as at
  from work_queue
  where org_id = %(org_id)s and dead_lettered_at is not null
  union all
  select 'extract', extraction_error, null
  from conversations
  where org_id = %(org_id)s and extraction_error is not null
) as failed
group by failed.queue, failed.error
order by count desc, failed.queue, failed.error
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
