-- name: renew
update work_queue
set due_at = clock_timestamp() + interval '2 minutes'
from unnest(%(subject_id)s::uuid[], %(attempts)s::integer[]) as taken (subject_id, attempts)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(target)s
  and work_queue.subject_id = taken.subject_id
  and work_queue.attempts = taken.attempts
  and work_queue.dead_lettered_at is null
returning work_queue.subject_id as id;

-- name: finish_unchanged
delete from work_queue
using unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as done (subject_id, version, attempts)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(target)s
  and work_queue.subject_id = done.subject_id
  and work_queue.version = done.version
  and work_queue.attempts = done.attempts;

-- name: retry_changed
-- This is a separate statement, so that it sees what was enqueued while `finish_unchanged` waited. `asked_at` moves on,
-- because the last read included everything that was enqueued before it. Otherwise, a subject that always changes would
-- block `swap_index` for ever.
update work_queue
set due_at = now(), attempts = 0, asked_at = greatest(work_queue.asked_at, work_queue.due_at - interval '2 minutes')
from unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as taken (subject_id, version, attempts)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(target)s
  and work_queue.subject_id = taken.subject_id
  and work_queue.version > taken.version
  and work_queue.attempts = taken.attempts;

-- name: all_projections
select target, index_name, model, dimensions, next_index_name, next_model, next_dimensions, next_since, fencing_token, failing_since, error
from projections
where org_id = %(org_id)s
order by target;

-- name: take_fencing_token
-- The row stays locked until the transaction ends, so a greater token reads newer data.
update projections
set fencing_token = fencing_token + 1
where org_id = %(org_id)s and target = %(target)s
returning
  target, index_name, model, dimensions, next_index_name, next_model, next_dimensions, next_since, fencing_token, failing_since, error;

-- name: begin_rebuild
-- Replaces a rebuild that is running. The index that is read may be lost.
insert into projections (org_id, target, next_index_name, next_model, next_dimensions)
values (%(org_id)s, %(target)s, %(index_name)s, %(model)s, %(dimensions)s)
on conflict (org_id, target) do update
set
  index_name = case when not %(is_lost)s then projections.index_name end,
  model = case when not %(is_lost)s then projections.model end,
  dimensions = case when not %(is_lost)s then projections.dimensions end,
  next_index_name = excluded.next_index_name,
  next_model = excluded.next_model,
  next_dimensions = excluded.next_dimensions,
  next_xid = null,
  next_after = null,
  next_since = null;

-- name: publish_rebuild
-- A transaction that began after the rebuild was visible.
update projections
set next_xid = pg_current_xact_id()
where org_id = %(org_id)s and target = %(target)s and next_index_name is not null and next_xid is null;

-- name: rebuild_position
-- None until all transactions have ended that may not know of the rebuild.
select next_after as after
from projections
where org_id = %(org_id)s
  and target = %(target)s
  and next_index_name is not null
  and next_since is null
  and next_xid < pg_snapshot_xmin(pg_current_snapshot())
for update;

-- name: record_position
update projections
set
  next_after = case when not %(is_last)s then %(after)s::uuid end,
  next_since = case when %(is_last)s then clock_timestamp() end
where org_id = %(org_id)s and target = %(target)s and next_index_name is not null;

-- name: swap_index
-- Uses index: work_asked
update projections
set
  index_name = next_index_name, model = next_model, dimensions = next_dimensions,
  next_index_name = null, next_model = null, next_dimensions = null, next_xid = null, next_since = null
where org_id = %(org_id)s
  and target = %(target)s
  and next_index_name is not null
  and next_since is not null
  and not exists (
    select from work_queue
    where work_queue.org_id = %(org_id)s
      and work_queue.queue = %(target)s
      and work_queue.dead_lettered_at is null
      and work_queue.asked_at <= projections.next_since
  );

-- name: drop_projection
delete from projections where org_id = %(org_id)s and target = %(target)s;

-- name: drop_work
delete from work_queue where org_id = %(org_id)s and queue = %(target)s;

-- name: record_outage
update projections
set failing_since = coalesce(failing_since, clock_timestamp()), error = %(error)s
where org_id = %(org_id)s and target = %(target)s and (failing_since is null or error is distinct from %(error)s);

-- name: record_recovery
update projections
set failing_since = null, error = null
where org_id = %(org_id)s and target = %(target)s and failing_since is not null;

-- name: backlog
-- Uses index: work_asked
select
  count(*) filter (where dead_lettered_at is null) as waiting,
  count(*) filter (where dead_lettered_at is not null) as dead_lettered,
  coalesce(extract(epoch from clock_timestamp() - min(asked_at) filter (where dead_lettered_at is null)), 0)::float8
    as lag_seconds
from work_queue
where org_id = %(org_id)s and queue = %(target)s;

-- name: is_behind
-- A projection is behind if some work has waited for more than half a minute, or if the server refused a subject.
-- Uses index: work_asked
select exists (
  select from work_queue
  where org_id = %(org_id)s
    and queue = %(target)s
    and (asked_at < now() - interval '30 seconds' or dead_lettered_at is not null)
);

-- name: has_pending
-- Uses index: work_asked
select exists (select from work_queue where org_id = %(org_id)s and queue = %(target)s);

-- name: points
-- The root of a thread is up to a hundred replies away.
-- Uses index: replies_from
select
  %(version)s::integer as version, message.id, message.room_id, message.kind, message.author_id, message.author_name, message.author_kind, message.sent_at,
  message.sequence, placement.conversation_id, parent.parent_id as reply_to,
  coalesce(root.id, message.id) as thread_id,
  case when message.kind = 'whisper' then coalesce(recipients.ids, '{}') end as audience,
  embedding.embedding as vector, coalesce(words.lexemes, '{}') as lexemes
from messages as message
left join conversation_messages as placement on placement.org_id = message.org_id and placement.message_id = message.id
left join lateral (
  select edge.parent_id
  from thread_edges as edge
  where edge.org_id = message.org_id and edge.child_id = message.id
  order by edge.parent_id
  limit 1
) as parent on true
left join lateral (
  with recursive up as (
    select parent.parent_id as id, 1 as steps
    where parent.parent_id is not null
    union all
    select above.parent_id, up.steps + 1
    from up
    cross join lateral (
      select edge.parent_id
      from thread_edges as edge
      where edge.org_id = message.org_id and edge.child_id = up.id
      order by edge.parent_id
      limit 1
    ) as above
    where up.steps < 100
  )
  select up.id from up order by up.steps desc limit 1
) as root on true
left join lateral (
  select array_agg(audience.participant_id order by audience.participant_id) as ids
  from message_audience as audience
  where audience.org_id = message.org_id and audience.message_id = message.id
) as recipients on true
left join message_embeddings as embedding
  on embedding.org_id = message.org_id and embedding.message_id = message.id and embedding.model = %(model)s
left join lateral (
  select jsonb_object_agg(word.lexeme, coalesce(cardinality(word.positions), 1)) as lexemes
  from unnest(message.words) as word
) as words on true
where message.org_id = %(org_id)s
  and message.id = any (%(ids)s)
  and message.kind in ('message', 'whisper')
  and message.redacted_at is null
  and message.erased_at is null;

-- name: ids_after
select id
from messages
where org_id = %(org_id)s
  and id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
  and kind in ('message', 'whisper')
  and redacted_at is null
  and erased_at is null
order by id
limit %(limit)s;

-- name: viewer_visibility
select
  viewer_is_operator() as is_operator,
  viewer_is_agent() as is_agent,
  own_ids() as own_ids,
  array(select open.room_id from open_rooms_of_viewer as open) as open_room_ids;

-- name: viewer_memberships
select room_id, nullif(joined_at, '-infinity') as joined_at, nullif(left_at, 'infinity') as left_at
from memberships_of_viewer;

-- name: pending_ids
select subject_id
from work_queue
where org_id = %(org_id)s and queue = %(target)s and subject_id = any (%(ids)s::uuid[]) and dead_lettered_at is null;

-- name: enqueue
select enqueue_projection(%(ids)s::uuid[]);

-- name: enqueue_nodes
select enqueue_graph_nodes(%(ids)s::uuid[]);

-- name: enqueue_for
select enqueue_projection_of(array[%(target)s::text], %(ids)s::uuid[]);

-- name: enqueue_added
select enqueue_projection(
  array(
    select id from pg_temp.incoming
    where kind in ('message', 'whisper') and exists (select from projections where org_id = %(org_id)s)
  )
) + enqueue_graph_nodes(
  array(
    select case kind when 'system' then id else author_id end
    from pg_temp.incoming
    where kind in ('message', 'whisper', 'system')
      and exists (select from projections where org_id = %(org_id)s and target = 'neo4j')
  )
);

-- name: enqueue_reply_trees
-- Their place in the thread changes.
-- Uses index: replies_to
with recursive below as (
  select named.id
  from unnest(%(ids)s::uuid[]) as named (id)
  where exists (select from projections where projections.org_id = %(org_id)s)
  union
  select replies.child_id
  from below
  join replies on replies.org_id = %(org_id)s and replies.parent_id = below.id
)
select enqueue_projection(array(select id from below));

-- name: enqueue_trees_below_added
with recursive below as (
  select replies.child_id as id
  from pg_temp.incoming as added
  join replies on replies.org_id = %(org_id)s and replies.parent_id = added.id
  where exists (select from projections where projections.org_id = %(org_id)s)
  union
  select replies.child_id
  from below
  join replies on replies.org_id = %(org_id)s and replies.parent_id = below.id
)
select enqueue_projection(array(select id from below));

-- name: enqueue_authors_around
-- Graphs count who replies to whom.
-- Uses index: replies_to
select enqueue_graph_nodes(
  array(
    select message.author_id
    from (
      select unnest(%(ids)s::uuid[]) as id
      union
      select replies.child_id
      from replies
      where replies.org_id = %(org_id)s and replies.parent_id = any (%(ids)s::uuid[])
    ) as touched
    join messages as message on message.org_id = %(org_id)s and message.id = touched.id
    where exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
);

-- name: enqueue_authors_below_added
select enqueue_graph_nodes(
  array(
    select message.author_id
    from pg_temp.incoming as added
    join replies on replies.org_id = %(org_id)s and replies.parent_id = added.id
    join messages as message on message.org_id = %(org_id)s and message.id = replies.child_id
    where exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
);

-- name: enqueue_written_by
-- Uses index: messages_by_author
select enqueue_projection(
  array(
    select id
    from messages
    where org_id = %(org_id)s
      and author_id = any (%(ids)s)
      and kind in ('message', 'whisper')
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
) + enqueue_graph_nodes(%(ids)s::uuid[]);

-- name: enqueue_conversations
-- Uses index: conversation_messages_in
select enqueue_projection(
  array(
    select message_id
    from conversation_messages
    where org_id = %(org_id)s
      and conversation_id = any (%(ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
);

-- name: enqueue_naming
-- Uses index: memory_participants_of_participant
select enqueue_graph_nodes(
  %(ids)s::uuid[] || array(
    select memory_id
    from memory_participants
    where org_id = %(org_id)s
      and participant_id = any (%(ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
);

-- name: enqueue_resting
select enqueue_graph_nodes(
  %(ids)s::uuid[] || array(
    select memory_id
    from memory_sources
    where org_id = %(org_id)s
      and message_id = any (%(ids)s::uuid[])
      and exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
);
