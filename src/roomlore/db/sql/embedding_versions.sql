-- Whose vectors an org is searched by, and those of the model that comes next.

-- name: keep_switches_out
-- Wait for a switch of models that is under way, and let the next one wait until the transaction ends.
select pg_advisory_xact_lock_shared(hashtextextended('generations ' || %(org_id)s::text, 0));

-- name: keep_embedding_out
-- Wait for those who are writing vectors, and let others wait until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('generations ' || %(org_id)s::text, 0));

-- name: all -> EmbeddingVersion
-- The generations of an org.
select state, provider, model, dimensions, since, failing_since, error
from generations
where org_id = %(org_id)s
order by state;

-- name: put
-- Say which provider makes the vectors of a state, unless somebody has; of one that was never reached, what it is.
insert into generations (org_id, state, provider, model, dimensions)
values (%(org_id)s, %(state)s, %(provider)s, %(model)s, %(dimensions)s)
on conflict (org_id, state) do update
set model = excluded.model, dimensions = excluded.dimensions
where generations.model is null and generations.provider = excluded.provider;

-- name: drop_next
-- Have no next generation any more.
delete from generations where org_id = %(org_id)s and state = 'next';

-- name: drop_previous
-- Have no previous generation any more.
delete from generations where org_id = %(org_id)s and state = 'previous';

-- name: succeed
-- Let a generation take another state, from now on.
update generations
set state = %(state)s, since = clock_timestamp()
where org_id = %(org_id)s and state = %(was)s;

-- name: note_reached
-- Say what a provider was found to be, and that it gives vectors.
update generations
set model = %(model)s, dimensions = %(dimensions)s, failing_since = null, error = null
where org_id = %(org_id)s
  and provider = %(provider)s
  and (
    (model, dimensions) is distinct from (%(model)s, %(dimensions)s::integer) or failing_since is not null
  );

-- name: note_unchosen
-- Let there be a row to say of the default provider that it gives no vectors, where nothing was ever chosen.
insert into generations (org_id, state, provider)
select %(org_id)s, 'current', %(provider)s
where not exists (select from generations where org_id = %(org_id)s)
on conflict (org_id, state) do nothing;

-- name: forget_unchosen
-- Have no such row any more: the default provider is what there is, and nobody chose it.
delete from generations
where org_id = %(org_id)s
  and provider = %(provider)s
  and state = 'current'
  and model is null
  and not exists (select from generations as others where others.org_id = %(org_id)s and others.state <> 'current');

-- name: note_outage
-- Say that a provider gives no vectors, and keep since when.
update generations
set failing_since = coalesce(failing_since, clock_timestamp()), error = %(error)s
where org_id = %(org_id)s
  and provider = %(provider)s
  and (failing_since is null or error is distinct from %(error)s);

-- name: embedding_lag -> LagRow
-- Whether something of an org cannot be found by this model's vectors yet: work waits for it, or there are vectors, and
-- none is of this model.
select
  exists (select 1 from work where org_id = %(org_id)s and stage = 'embed' and set_aside_at is null)
  or (
    exists (select 1 from embedded where org_id = %(org_id)s)
    and not exists (select 1 from embedded where org_id = %(org_id)s and model = %(model)s)
  ) as is_behind;

-- name: progress -> EmbeddingProgress
-- How many messages and memories are to have a vector, how many of them have one of this model, and what waits in a
-- stage.
select
  count(*) as wanted,
  count(*) filter (where (
    select vectors.id
    from embedded as vectors
    where vectors.org_id = %(org_id)s and vectors.id = wanting.id and vectors.model = %(model)s::text
    limit 1
  ) is not null) as done,
  (
    select count(*)
    from work
    where work.org_id = %(org_id)s and work.stage = %(stage)s and work.set_aside_at is null
  ) as waiting,
  (
    select count(*)
    from work
    where work.org_id = %(org_id)s and work.stage = %(stage)s and work.set_aside_at is not null
  ) as set_aside
from embeddable as wanting
where wanting.org_id = %(org_id)s;

-- name: waits -> PendingRow
-- Whether anything waits to be embedded by the next model; what was set aside does not.
select exists (
  select from work where org_id = %(org_id)s and stage = 'reembed' and set_aside_at is null
) as is_true;

-- name: drop_reembed
-- Forget what was asked of the next model.
delete from work where org_id = %(org_id)s and stage = 'reembed';

-- name: drop_embedded
-- Forget what is still asked of the current model, of what has a vector of it: right after a switch.
delete from work
where work.org_id = %(org_id)s
  and work.stage = 'embed'
  and exists (
    select
    from embedded as vectors
    where vectors.org_id = work.org_id and vectors.id = work.subject_id and vectors.model = %(model)s
  );

-- name: inherit_set_aside
-- What the next model could not embed the current one cannot, once it is that.
insert into work (org_id, stage, subject_id, failures, error, set_aside_at)
select org_id, 'embed', subject_id, failures, error, set_aside_at
from work
where org_id = %(org_id)s and stage = 'reembed'
on conflict (org_id, stage, subject_id) do nothing;

-- name: spare_models -> ModelRef
-- Models of which there are vectors that nobody reads any more: no generation has them, and no copy. None while it is
-- not known which those are.
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
  and exists (select from generations where org_id = %(org_id)s and state = 'current')
  and not exists (select from generations where org_id = %(org_id)s and model is null)
  and not exists (select from generations where org_id = %(org_id)s and model = held.model)
  and not exists (
    select from projections where org_id = %(org_id)s and held.model in (model, next_model)
  );

-- name: lengths -> VectorLength
-- How long the vectors of each model are that an org has: one of each is looked at, since all are alike.
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

-- name: drop_vectors -> DroppedCount
-- Remove some vectors of a model, as many of messages and of memories.
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
