-- name: lock_switches
select pg_advisory_xact_lock_shared(hashtextextended('embedding_versions ' || %(org_id)s::text, 0));

-- name: lock_embeddings
select pg_advisory_xact_lock(hashtextextended('embedding_versions ' || %(org_id)s::text, 0));

-- name: all_versions
select state, provider, model, dimensions, since, failing_since, error
from embedding_versions
where org_id = %(org_id)s
order by state;

-- name: put
insert into embedding_versions (org_id, state, provider, model, dimensions)
values (%(org_id)s, %(state)s, %(provider)s, %(model)s, %(dimensions)s)
on conflict (org_id, state) do update
set model = excluded.model, dimensions = excluded.dimensions
where embedding_versions.model is null and embedding_versions.provider = excluded.provider;

-- name: drop_version
delete from embedding_versions where org_id = %(org_id)s and state = %(state)s;

-- name: change_state
update embedding_versions
set state = %(to)s, since = clock_timestamp()
where org_id = %(org_id)s and state = %(state)s;

-- name: record_reached
update embedding_versions
set model = %(model)s, dimensions = %(dimensions)s, failing_since = null, error = null
where org_id = %(org_id)s
  and provider = %(provider)s
  and (
    (model, dimensions) is distinct from (%(model)s, %(dimensions)s::integer) or failing_since is not null
  );

-- name: add_unchosen
insert into embedding_versions (org_id, state, provider)
select %(org_id)s, 'current', %(provider)s
where not exists (select from embedding_versions where org_id = %(org_id)s)
on conflict (org_id, state) do nothing;

-- name: drop_unchosen
delete from embedding_versions
where org_id = %(org_id)s
  and provider = %(provider)s
  and state = 'current'
  and model is null
  and not exists (select from embedding_versions as others where others.org_id = %(org_id)s and others.state <> 'current');

-- name: record_outage
update embedding_versions
set failing_since = coalesce(failing_since, clock_timestamp()), error = %(error)s
where org_id = %(org_id)s
  and provider = %(provider)s
  and (failing_since is null or error is distinct from %(error)s);

-- name: is_behind
select
  exists (select 1 from work_queue where org_id = %(org_id)s and queue = 'embed' and dead_lettered_at is null)
  or (
    exists (select 1 from embedded where org_id = %(org_id)s)
    and not exists (select 1 from embedded where org_id = %(org_id)s and model = %(model)s)
  ) as is_behind;

-- name: progress
select
  count(*) as total,
  count(*) filter (where (
    select vectors.id
    from embedded as vectors
    where vectors.org_id = %(org_id)s and vectors.id = wanting.id and vectors.model = %(model)s::text
    limit 1
  ) is not null) as done,
  (
    select count(*)
    from work_queue
    where work_queue.org_id = %(org_id)s and work_queue.queue = %(queue)s and work_queue.dead_lettered_at is null
  ) as waiting,
  (
    select count(*)
    from work_queue
    where work_queue.org_id = %(org_id)s and work_queue.queue = %(queue)s and work_queue.dead_lettered_at is not null
  ) as dead_lettered
from embeddable as wanting
where wanting.org_id = %(org_id)s;

-- name: has_pending
select exists (
  select from work_queue where org_id = %(org_id)s and queue = 'reembed' and dead_lettered_at is null
) as is_true;

-- name: drop_reembed
delete from work_queue where org_id = %(org_id)s and queue = 'reembed';

-- name: drop_embedded
delete from work_queue
where work_queue.org_id = %(org_id)s
  and work_queue.queue = 'embed'
  and exists (
    select
    from embedded as vectors
    where vectors.org_id = work_queue.org_id and vectors.id = work_queue.subject_id and vectors.model = %(model)s
  );

-- name: inherit_set_aside
insert into work_queue (org_id, queue, subject_id, failures, error, dead_lettered_at)
select org_id, 'embed', subject_id, failures, error, dead_lettered_at
from work_queue
where org_id = %(org_id)s and queue = 'reembed'
on conflict (org_id, queue, subject_id) do nothing;

-- name: unused_models
-- Uses indexes: message_embeddings_in_room, memory_embeddings_of_model
with recursive held as (
  (select min(model) as model from embedded where org_id = %(org_id)s)
  union all
  select (
    select min(vectors.model)
    from embedded as vectors
    where vectors.org_id = %(org_id)s and vectors.model > held.model
  )
  from held
  where held.model is not null
)
select held.model
from held
where held.model is not null
  and exists (select from embedding_versions where org_id = %(org_id)s and state = 'current')
  and not exists (select from embedding_versions where org_id = %(org_id)s and model is null)
  and not exists (select from embedding_versions where org_id = %(org_id)s and model = held.model)
  and not exists (
    select from projections where org_id = %(org_id)s and held.model in (model, next_model)
  );

-- name: vector_lengths
-- All vectors of a model have the same length, so one is read.
-- Uses index: message_embeddings_in_room
with recursive held as (
  (select min(model) as model from message_embeddings where org_id = %(org_id)s)
  union all
  select (
    select min(vectors.model)
    from message_embeddings as vectors
    where vectors.org_id = %(org_id)s and vectors.model > held.model
  )
  from held
  where held.model is not null
)
select held.model, one.dimensions
from held
cross join lateral (
  select vector_dims(vectors.embedding) as dimensions
  from message_embeddings as vectors
  where vectors.org_id = %(org_id)s and vectors.model = held.model
  limit 1
) as one
where held.model is not null;

-- name: drop_vectors
-- Uses indexes: message_embeddings_in_room, memory_embeddings_of_model
with said as (
  delete from message_embeddings as vectors
  where vectors.org_id = %(org_id)s
    and vectors.model = %(model)s
    and vectors.message_id in (
      select chosen.message_id
      from message_embeddings as chosen
      where chosen.org_id = %(org_id)s and chosen.model = %(model)s
      limit %(limit)s
    )
  returning vectors.message_id
),
remembered as (
  delete from memory_embeddings as vectors
  where vectors.org_id = %(org_id)s
    and vectors.model = %(model)s
    and vectors.memory_id in (
      select chosen.memory_id
      from memory_embeddings as chosen
      where chosen.org_id = %(org_id)s and chosen.model = %(model)s
      limit %(limit)s
    )
  returning vectors.memory_id
)
select (select count(*) from said) + (select count(*) from remembered) as count;
