-- name: put_heartbeat
insert into heartbeats (org_id, worker_id, started_at, seen_at)
values (%(org_id)s, %(worker_id)s, %(started_at)s, now())
on conflict (org_id, worker_id) do update set seen_at = now();

-- name: drop_stale_heartbeats
delete from heartbeats where org_id = %(org_id)s and seen_at < now() - %(kept)s::interval;

-- name: remove_heartbeat
delete from heartbeats where org_id = %(org_id)s and worker_id = %(worker_id)s;

-- name: newest_heartbeats
select worker_id, started_at, seen_at
from heartbeats
where org_id = %(org_id)s
order by seen_at desc, worker_id
limit %(limit)s;

-- name: enqueue_work
insert into work_queue (org_id, queue, subject_id)
select %(org_id)s, %(queue)s, unnest(%(subject_ids)s::uuid[])
on conflict (org_id, queue, subject_id) do update
set version = work_queue.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, dead_lettered_at = null;

-- name: enqueue_next
select reembed(%(subject_ids)s::uuid[]);

-- name: enqueue_anew
with enqueued as (
  insert into work_queue (org_id, queue, subject_id)
  select org_id, 'embed', id
  from messages
  where org_id = %(org_id)s
    and id = any (%(ids)s)
    and kind in ('message', 'whisper')
    and redacted_at is null
    and body ~ '\S'
  on conflict (org_id, queue, subject_id) do update
  set version = work_queue.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, dead_lettered_at = null
  returning subject_id
)
select count(*) as count, reembed(array_agg(subject_id)) as of_next from enqueued;

-- name: enqueue_added_messages
with to_read as (
  insert into work_queue (org_id, queue, subject_id)
  select %(org_id)s, 'read', id from pg_temp.incoming where to_embed
),
enqueued as (
  insert into work_queue (org_id, queue, subject_id)
  select %(org_id)s, 'embed', id from pg_temp.incoming where to_embed
  returning subject_id
)
select count(*) as count, reembed(array_agg(subject_id)) as of_next from enqueued;

-- name: enqueue_missing_vectors
insert into work_queue (org_id, queue, subject_id)
select needed.org_id, %(queue)s, needed.id
from embeddable as needed
where needed.org_id = %(org_id)s
  and not exists (
    select 1
    from embedded as vectors
    where vectors.org_id = %(org_id)s
      and vectors.id = needed.id
      and vectors.model = %(model)s
      and (vectors.has_tokens or not %(with_tokens)s)
  )
on conflict (org_id, queue, subject_id) do nothing;

-- name: drop_unneeded_work
-- This comes before the vectors: a worker that writes a vector holds its row in `work_queue`, so no vector follows.
delete from work_queue
using messages as message
where work_queue.org_id = %(org_id)s
  and work_queue.queue in ('embed', 'reembed')
  and message.org_id = %(org_id)s
  and message.id = work_queue.subject_id
  and message.room_id = any (array(
    select rooms.id
    from rooms
    where rooms.org_id = %(org_id)s
      and rooms.embedding_policy = 'thread'
      and (%(room_id)s::uuid is null or rooms.id = %(room_id)s)
  ))
  and (
    %(message_ids)s::uuid[] is null
    or message.id = any (array(
      select unnest(%(message_ids)s::uuid[])
      union
      select replies.child_id
      from replies
      where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
    ))
  )
  and (
    select needed.id
    from embeddable_messages as needed
    where needed.org_id = %(org_id)s and needed.id = message.id
  ) is null;

-- name: drop_unneeded_embeddings
with gone as (
  delete from message_embeddings as vectors
  where vectors.org_id = %(org_id)s
    and vectors.room_id = any (array(
      select rooms.id
      from rooms
      where rooms.org_id = %(org_id)s
        and rooms.embedding_policy = 'thread'
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
      select needed.id
      from embeddable_messages as needed
      where needed.org_id = %(org_id)s and needed.id = vectors.message_id
    ) is null
  returning vectors.message_id
)
select count(*) as count, enqueue_points(array_agg(message_id)) as copies from gone;

-- name: enqueue_wanting
-- Work that a worker has just taken is done again, because the worker may have skipped the subject.
with needed as materialized (
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
enqueued as (
  insert into work_queue (org_id, queue, subject_id)
  select %(org_id)s, 'embed', needed.id from needed
  on conflict (org_id, queue, subject_id) do update
  set version = work_queue.version + 1, due_at = now()
  where work_queue.attempts > 0
  returning subject_id
)
select (select count(*) from enqueued) as count, reembed(array_agg(needed.id)) as of_next from needed;

-- name: embedding_policy
select embedding_policy from rooms where org_id = %(org_id)s and id = %(room_id)s;

-- name: set_embedding_policy
update rooms set embedding_policy = %(policy)s where org_id = %(org_id)s and id = %(room_id)s;

-- name: retry_dead_letters
update work_queue
set attempts = 0, failures = 0, due_at = now(), error = null, dead_lettered_at = null
where org_id = %(org_id)s and queue = %(queue)s and dead_lettered_at is not null;

-- name: wake
select pg_notify('roomlore_work', %(queue)s);

-- name: take
select org_id, subject_id, version, attempts
from lease_work(%(queue)s, %(only_org)s, %(per_org)s, %(total)s, %(lease)s, %(suspects)s, %(without)s::uuid[]);

-- name: org_ids
select org_id from org_ids() as org_id;

-- name: count
select waiting, dead_lettered from count_work(%(queue)s, %(only_org)s, %(without)s::uuid[]);

-- name: dead_letters
select coalesce(error, 'Unknown') as error, count(*) as messages
from work_queue
where org_id = %(org_id)s and queue = %(queue)s and dead_lettered_at is not null
group by error;

-- name: refresh_statistics
select refresh_statistics();

-- name: build_vector_indexes
select build_vector_indexes(%(worth_it)s);

-- name: finish
delete from work_queue
using unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as done (subject_id, version)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(queue)s
  and work_queue.subject_id = done.subject_id
  and work_queue.version = done.version
returning work_queue.subject_id;

-- name: fail
update work_queue
set
  error = %(error)s,
  attempts = 0,
  failures = work_queue.failures + 1,
  due_at = now() + least(%(first_after)s::interval * power(4, work_queue.failures + 1), interval '1 hour'),
  dead_lettered_at = case when work_queue.failures + 1 >= %(last_attempt)s then now() end
from unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as failed (subject_id, version)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(queue)s
  and work_queue.subject_id = failed.subject_id
  and work_queue.version = failed.version;

-- name: release
update work_queue
set due_at = now(), attempts = greatest(work_queue.attempts - 1, 0)
from unnest(%(subject_id)s::uuid[], %(version)s::integer[]) as leased (subject_id, version)
where work_queue.org_id = %(org_id)s
  and work_queue.queue = %(queue)s
  and work_queue.subject_id = leased.subject_id
  and work_queue.version = leased.version;

-- name: drop
delete from work_queue
where org_id = %(org_id)s and queue = any (case %(queue)s when 'embed' then array['embed', 'reembed'] else array[%(queue)s::text] end) and subject_id = any (%(subject_ids)s);

-- name: texts_to_embed
select messages.id as subject_id, messages.author_name, messages.body
from messages
join embeddable_messages as needed on needed.org_id = messages.org_id and needed.id = messages.id
where messages.org_id = %(org_id)s and messages.id = any (%(ids)s)
union all
select needed.id, null, needed.content
from embeddable_memories as needed
where needed.org_id = %(org_id)s and needed.id = any (%(ids)s);

-- name: write_embeddings
with written as materialized (
  select subject_id, embedding, tokens
  from unnest(%(ids)s::uuid[], %(vectors)s::halfvec[], %(tokens)s::bytea[])
    as vector (subject_id, embedding, tokens)
),
remembered as (
  insert into memory_embeddings (org_id, memory_id, model, embedding)
  select %(org_id)s, needed.id, %(model)s, written.embedding
  from written
  join embeddable_memories as needed on needed.org_id = %(org_id)s and needed.id = written.subject_id
  on conflict (org_id, memory_id, model) do update
  set embedding = excluded.embedding
),
made as (
  insert into message_embeddings (org_id, message_id, room_id, model, embedding, tokens)
  select %(org_id)s, needed.id, needed.room_id, %(model)s, written.embedding, written.tokens
  from written
  join embeddable_messages as needed on needed.org_id = %(org_id)s and needed.id = written.subject_id
  on conflict (org_id, message_id, model) do update
  set embedding = excluded.embedding, tokens = excluded.tokens
  returning message_id
)
select count(*) as count, enqueue_points(array_agg(message_id)) as copies from made;

-- name: delete_embeddings
with gone as (
  delete from message_embeddings
  where org_id = %(org_id)s and message_id = any (%(ids)s)
  returning message_id
)
select count(*) as count, enqueue_points(array_agg(message_id)) as copies from gone;
