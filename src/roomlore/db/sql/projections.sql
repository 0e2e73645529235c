-- name: renew
update work
set due_at = clock_timestamp() + interval '2 minutes'
from unnest(%(subject_id)s::uuid[], %(attempts)s::integer[]) as taken (subject_id, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = taken.subject_id
  and work.attempts = taken.attempts
  and work.set_aside_at is null
returning work.subject_id as id;

-- name: finish_unchanged
delete from work
using unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as done (subject_id, version, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = done.subject_id
  and work.version = done.version
  and work.attempts = done.attempts;

-- name: retry_changed
-- A statement of its own sees what was enqueued while `finish_unchanged` waited. `asked_at` moves on: what was enqueued
-- before the last read was in it. Otherwise a subject that always changes would block `swap_index` for ever.
update work
set due_at = now(), attempts = 0, asked_at = greatest(work.asked_at, work.due_at - interval '2 minutes')
from unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as taken (subject_id, version, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = taken.subject_id
  and work.version > taken.version
  and work.attempts = taken.attempts;

-- name: all_projections
select target, copy, model, dimensions, next_copy, next_model, next_dimensions, next_since, turn, failing_since, error
from projections
where org_id = %(org_id)s
order by target;

-- name: take_fencing_token
-- The row stays locked until the transaction ends, so a greater token reads newer data.
update projections
set turn = turn + 1
where org_id = %(org_id)s and target = %(target)s
returning
  target, copy, model, dimensions, next_copy, next_model, next_dimensions, next_since, turn, failing_since, error;

-- name: begin_rebuild
-- Replaces a rebuild that is running. The index that is read may be lost.
insert into projections (org_id, target, next_copy, next_model, next_dimensions)
values (%(org_id)s, %(target)s, %(copy)s, %(model)s, %(dimensions)s)
on conflict (org_id, target) do update
set
  copy = case when not %(is_lost)s then projections.copy end,
  model = case when not %(is_lost)s then projections.model end,
  dimensions = case when not %(is_lost)s then projections.dimensions end,
  next_copy = excluded.next_copy,
  next_model = excluded.next_model,
  next_dimensions = excluded.next_dimensions,
  next_xid = null,
  next_after = null,
  next_since = null;

-- name: publish_rebuild
-- A transaction that began after the rebuild was visible.
update projections
set next_xid = pg_current_xact_id()
where org_id = %(org_id)s and target = %(target)s and next_copy is not null and next_xid is null;

-- name: rebuild_position
-- Not before all transactions have ended that may not know of the rebuild.
select next_after as after
from projections
where org_id = %(org_id)s
  and target = %(target)s
  and next_copy is not null
  and next_since is null
  and next_xid < pg_snapshot_xmin(pg_current_snapshot())
for update;

-- name: record_position
update projections
set
  next_after = case when not %(is_last)s then %(after)s::uuid end,
  next_since = case when %(is_last)s then clock_timestamp() end
where org_id = %(org_id)s and target = %(target)s and next_copy is not null;

-- name: swap_index
-- Uses index: work_asked
update projections
set
  copy = next_copy, model = next_model, dimensions = next_dimensions,
  next_copy = null, next_model = null, next_dimensions = null, next_xid = null, next_since = null
where org_id = %(org_id)s
  and target = %(target)s
  and next_copy is not null
  and next_since is not null
  and not exists (
    select from work
    where work.org_id = %(org_id)s
      and work.stage = %(target)s
      and work.set_aside_at is null
      and work.asked_at <= projections.next_since
  );

-- name: drop_projection
delete from projections where org_id = %(org_id)s and target = %(target)s;

-- name: drop_work
delete from work where org_id = %(org_id)s and stage = %(target)s;

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
  count(*) filter (where set_aside_at is null) as waiting,
  count(*) filter (where set_aside_at is not null) as set_aside,
  coalesce(extract(epoch from clock_timestamp() - min(asked_at) filter (where set_aside_at is null)), 0)::float8
    as lag_seconds
from work
where org_id = %(org_id)s and stage = %(target)s;

-- name: is_behind
-- By more than half a minute, or because the server refused something.
-- Uses index: work_asked
select exists (
  select from work
  where org_id = %(org_id)s
    and stage = %(target)s
    and (asked_at < now() - interval '30 seconds' or set_aside_at is not null)
);

-- name: has_pending
-- Uses index: work_asked
select exists (select from work where org_id = %(org_id)s and stage = %(target)s);

-- name: points
-- The root of an exchange is up to a hundred replies away.
-- Uses index: replies_from
select
  %(version)s::integer as version, message.id, message.room_id, message.kind, message.author_id, message.author_name, message.author_kind, message.sent_at,
  message.native_order, placement.conversation_id, parent.parent_id as reply_to,
  coalesce(root.id, message.id) as exchange_id,
  case when message.kind = 'whisper' then coalesce(recipients.ids, '{}') end as audience,
  embedding.embedding as vector, coalesce(words.lexemes, '{}') as lexemes
from messages as message
left join placements as placement on placement.org_id = message.org_id and placement.message_id = message.id
left join lateral (
  select edge.parent_id
  from exchange_edges as edge
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
      from exchange_edges as edge
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

-- name: viewer_stays
select room_id, nullif(joined_at, '-infinity') as joined_at, left_at from stays_of_viewer;

-- name: pending_ids
select subject_id
from work
where org_id = %(org_id)s and stage = %(target)s and subject_id = any (%(ids)s::uuid[]) and set_aside_at is null;

-- name: enqueue
select ask_for_copies(%(ids)s::uuid[]);

-- name: enqueue_nodes
select ask_for_nodes(%(ids)s::uuid[]);

-- name: enqueue_for
select ask_for_copies_in(array[%(target)s::text], %(ids)s::uuid[]);

-- name: enqueue_added
select ask_for_copies(
  array(
    select id from pg_temp.incoming
    where kind in ('message', 'whisper') and exists (select from projections where org_id = %(org_id)s)
  )
) + ask_for_nodes(
  array(
    select case kind when 'system' then id else author_id end
    from pg_temp.incoming
    where kind in ('message', 'whisper', 'system')
      and exists (select from projections where org_id = %(org_id)s and target = 'neo4j')
  )
);

-- name: enqueue_reply_trees
-- Their place in the exchange changes.
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
select ask_for_copies(array(select id from below));

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
select ask_for_copies(array(select id from below));

-- name: enqueue_authors_around
-- Graphs count who replies to whom.
-- Uses index: replies_to
select ask_for_nodes(
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
select ask_for_nodes(
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
select ask_for_copies(
  array(
    select id
    from messages
    where org_id = %(org_id)s
      and author_id = any (%(ids)s)
      and kind in ('message', 'whisper')
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
) + ask_for_nodes(%(ids)s::uuid[]);

-- name: enqueue_conversations
-- Uses index: placements_in
select ask_for_copies(
  array(
    select message_id
    from placements
    where org_id = %(org_id)s
      and conversation_id = any (%(ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
);

-- name: enqueue_naming
-- Uses index: memory_participants_of_participant
select ask_for_nodes(
  %(ids)s::uuid[] || array(
    select memory_id
    from memory_participants
    where org_id = %(org_id)s
      and participant_id = any (%(ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
);
