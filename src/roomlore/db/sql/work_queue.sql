-- Which workers were there lately. Runs for the operator.

-- name: beat
-- Note that a worker came by.
insert into heartbeats (org_id, worker_id, started_at, seen_at)
values (%(org_id)s, %(worker_id)s, %(started_at)s, now())
on conflict (org_id, worker_id) do update set seen_at = now();

-- name: drop_stale
-- Forget workers that were not seen for so long.
delete from heartbeats where org_id = %(org_id)s and seen_at < now() - %(kept)s::interval;

-- name: end
-- Forget a worker that ended in order.
delete from heartbeats where org_id = %(org_id)s and worker_id = %(worker_id)s;

-- name: newest -> Heartbeat
-- The workers that were seen last.
select worker_id, started_at, seen_at
from heartbeats
where org_id = %(org_id)s
order by seen_at desc, worker_id
limit %(limit)s;

-- What is still to be done: the queue, and the vectors that the embedding worker writes, of messages and memories.

-- name: enqueue
-- Ask for a stage to be run on these subjects, again if it has run before.
insert into work (org_id, stage, subject_id)
select %(org_id)s, %(stage)s, unnest(%(subject_ids)s::uuid[])
on conflict (org_id, stage, subject_id) do update
set version = work.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, set_aside_at = null;

-- name: enqueue_next -> EnqueuedCount
-- Ask for subjects to be embedded by the next model as well, where there is one.
select 0::bigint as count, reembed(%(subject_ids)s::uuid[]) as of_next;

-- name: enqueue_anew -> EnqueuedCount
-- Ask for messages that read otherwise now to be embedded again, as far as messages like them are.
with asked as (
  insert into work (org_id, stage, subject_id)
  select org_id, 'embed', id
  from messages
  where org_id = %(org_id)s
    and id = any (%(message_ids)s)
    and kind in ('message', 'whisper')
    and redacted_at is null
    and body ~ '\S'
  on conflict (org_id, stage, subject_id) do update
  set version = work.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, set_aside_at = null
  returning subject_id
)
select count(*) as count, reembed(array_agg(subject_id)) as of_next from asked;

-- name: enqueue_added -> EnqueuedCount
-- Ask for the messages just added to be embedded.
with asked as (
  insert into work (org_id, stage, subject_id)
  select %(org_id)s, 'embed', id from pg_temp.incoming where to_embed
  returning subject_id
)
select count(*) as count, reembed(array_agg(subject_id)) as of_next from asked;

-- name: enqueue_missing
-- Ask for every message and memory that should have a vector of this model and has none, or none of its tokens where
-- they are to be had, to be embedded.
insert into work (org_id, stage, subject_id)
select wanting.org_id, %(stage)s, wanting.id
from embeddable as wanting
where wanting.org_id = %(org_id)s
  and not exists (
    select 1
    from embedded as vectors
    where vectors.org_id = %(org_id)s
      and vectors.id = wanting.id
      and vectors.model = %(model)s
      and (vectors.has_tokens or not %(with_tokens)s)
  )
on conflict (org_id, stage, subject_id) do nothing;

-- name: drop_spare_work
-- Drop work on messages that are to have no vector: of rooms that embed exchanges, or of one of them, all or only these
-- messages and what answers them. Whoever is just writing such a vector holds the work's row, so that what is dropped
-- after this is dropped for good.
delete from work
using messages as said
where work.org_id = %(org_id)s
  and work.stage in ('embed', 'reembed')
  and said.org_id = %(org_id)s
  and said.id = work.subject_id
  and said.room_id = any (array(
    select rooms.id
    from rooms
    where rooms.org_id = %(org_id)s
      and rooms.embedding_policy = 'exchange'
      and (%(room_id)s::uuid is null or rooms.id = %(room_id)s)
  ))
  and (
    %(message_ids)s::uuid[] is null
    or said.id = any (array(
      select unnest(%(message_ids)s::uuid[])
      union
      select replies.child_id
      from replies
      where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
    ))
  )
  and (
    select wanting.id
    from embeddable_messages as wanting
    where wanting.org_id = %(org_id)s and wanting.id = said.id
  ) is null;

-- name: drop_spare_embeddings -> VectorChange
-- Remove vectors of messages that are to have none: of rooms that embed exchanges, or of one of them, all or only these
-- messages and what answers them.
with gone as (
  delete from message_embeddings as vectors
  where vectors.org_id = %(org_id)s
    and vectors.room_id = any (array(
      select rooms.id
      from rooms
      where rooms.org_id = %(org_id)s
        and rooms.embedding_policy = 'exchange'
        and (%(room_id)s::uuid is null or rooms.id = %(room_id)s)
    ))
    and (
      %(message_ids)s::uuid[] is null
      or vectors.message_id = any (array(
        select unnest(%(message_ids)s::uuid[])
        union
        select replies.child_id
        from replies
        where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
      ))
    )
    and (
      select wanting.id
      from embeddable_messages as wanting
      where wanting.org_id = %(org_id)s and wanting.id = vectors.message_id
    ) is null
  returning vectors.message_id
)
select count(*) as count, ask_for_points(array_agg(message_id)) as copies from gone;

-- name: enqueue_wanting -> EnqueuedCount
-- Ask for messages of a room that are to have a vector and have none to be embedded, all or only these and what answers
-- them; what a worker has just taken is done again, for it may have passed it over.
with wanting as materialized (
  select wanted.id
  from embeddable_messages as wanted
  where wanted.org_id = %(org_id)s
    and wanted.room_id = %(room_id)s
    and (
      %(message_ids)s::uuid[] is null
      or wanted.id = any (array(
        select unnest(%(message_ids)s::uuid[])
        union
        select replies.child_id
        from replies
        where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
      ))
    )
    and (
      select vectors.message_id
      from message_embeddings as vectors
      where vectors.org_id = %(org_id)s and vectors.message_id = wanted.id
      limit 1
    ) is null
),
asked as (
  insert into work (org_id, stage, subject_id)
  select %(org_id)s, 'embed', wanting.id from wanting
  on conflict (org_id, stage, subject_id) do update
  set version = work.version + 1, due_at = now()
  where work.attempts > 0
  returning subject_id
)
select (select count(*) from asked) as count, reembed(array_agg(wanting.id)) as of_next from wanting;

-- name: embedding_policy -> PolicyRow
-- What a room embeds.
select embedding_policy from rooms where org_id = %(org_id)s and id = %(room_id)s;

-- name: set_embedding_policy
-- Say what a room embeds.
update rooms set embedding_policy = %(policy)s where org_id = %(org_id)s and id = %(room_id)s;

-- name: retry
-- Ask once more for everything of a stage that was set aside.
update work
set attempts = 0, failures = 0, due_at = now(), error = null, set_aside_at = null
where org_id = %(org_id)s and stage = %(stage)s and set_aside_at is not null;

-- name: wake
-- Tell listening workers that there is something to do, once this transaction commits.
select pg_notify('roomlore_work', %(stage)s);

-- name: take -> Task
-- Take a fair batch of due work, over all orgs or of one only, and lease it.
select org_id, subject_id, version, attempts
from take_work(%(stage)s, %(only_org)s, %(per_org)s, %(total)s, %(lease)s, %(suspects)s, %(without)s::uuid[]);

-- name: org_ids -> OrgRef
-- Every org there is.
select org_id from org_ids() as org_id;

-- name: count -> WorkCount
-- How much is waiting and how much was set aside, over all orgs or in one.
select waiting, set_aside from count_work(%(stage)s, %(only_org)s, %(without)s::uuid[]);

-- name: set_aside -> DeadLetterCount
-- Why work of an org was set aside, by kind of error.
select coalesce(error, 'Unknown') as error, count(*) as messages
from work
where org_id = %(org_id)s and stage = %(stage)s and set_aside_at is not null
group by error;

-- name: refresh_statistics
-- Let the planner know what tables have become.
select refresh_statistics();

-- name: build_vector_indexes -> IndexCount
-- Give one large partition of vectors its approximate index.
select build_vector_indexes(%(worth_it)s) as indexes;

-- name: finish -> FinishedSubject
-- Forget finished work, unless its subject has changed in the meantime, and tell which that was.
delete from work
using unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as done (subject_id, version)
where work.org_id = %(org_id)s
  and work.stage = %(stage)s
  and work.subject_id = done.subject_id
  and work.version = done.version
returning work.subject_id;

-- name: fail
-- Note an error and try again later, or set the work aside after its last attempt.
update work
set
  error = %(error)s,
  attempts = 0,
  failures = work.failures + 1,
  due_at = now() + least(%(retry)s::interval * power(4, work.failures + 1), interval '1 hour'),
  set_aside_at = case when work.failures + 1 >= %(last_attempt)s then now() end
from unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as failed (subject_id, version)
where work.org_id = %(org_id)s
  and work.stage = %(stage)s
  and work.subject_id = failed.subject_id
  and work.version = failed.version;

-- name: release
-- Give leased work back unfinished.
update work
set due_at = now(), attempts = greatest(work.attempts - 1, 0)
from unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as leased (subject_id, version)
where work.org_id = %(org_id)s
  and work.stage = %(stage)s
  and work.subject_id = leased.subject_id
  and work.version = leased.version;

-- name: forget
-- Drop work on subjects that no longer need it.
delete from work
where org_id = %(org_id)s and stage = any (%(stages)s) and subject_id = any (%(subject_ids)s);

-- name: texts_to_embed -> TextToEmbed
-- What is to be embedded: what was said and who said it, and what memories say.
select messages.id as subject_id, messages.author_name, messages.body
from messages
join embeddable_messages as wanting on wanting.org_id = messages.org_id and wanting.id = messages.id
where messages.org_id = %(org_id)s and messages.id = any (%(subject_ids)s)
union all
select wanting.id, null, wanting.content
from embeddable_memories as wanting
where wanting.org_id = %(org_id)s and wanting.id = any (%(subject_ids)s);

-- name: put_embeddings -> VectorChange
-- Write vectors, replacing older ones of the same model; what is to have none meanwhile gets none.
with given as materialized (
  select subject_id, embedding, tokens
  from unnest(%(subject_id)s::uuid[], %(embedding)s::halfvec[], %(tokens)s::bytea[])
    as one (subject_id, embedding, tokens)
),
remembered as (
  insert into memory_embeddings (org_id, memory_id, model, embedding)
  select %(org_id)s, wanting.id, %(model)s, given.embedding
  from given
  join embeddable_memories as wanting on wanting.org_id = %(org_id)s and wanting.id = given.subject_id
  on conflict (org_id, memory_id, model) do update
  set embedding = excluded.embedding
),
made as (
  insert into message_embeddings (org_id, message_id, room_id, model, embedding, tokens)
  select %(org_id)s, wanting.id, wanting.room_id, %(model)s, given.embedding, given.tokens
  from given
  join embeddable_messages as wanting on wanting.org_id = %(org_id)s and wanting.id = given.subject_id
  on conflict (org_id, message_id, model) do update
  set embedding = excluded.embedding, tokens = excluded.tokens
  returning message_id
)
select count(*) as count, ask_for_points(array_agg(message_id)) as copies from made;

-- name: drop_embeddings -> VectorChange
-- Remove the vectors of messages.
with gone as (
  delete from message_embeddings
  where org_id = %(org_id)s and message_id = any (%(message_ids)s)
  returning message_id
)
select count(*) as count, ask_for_points(array_agg(message_id)) as copies from gone;
