-- What is still to be done: the queue, and the vectors that the embedding worker writes.

-- name: enqueue
-- Ask for a stage to be run on these subjects, again if it has run before.
insert into work (org_id, stage, subject_id)
select %(org_id)s, %(stage)s, unnest(%(subject_ids)s::uuid[])
on conflict (org_id, stage, subject_id) do update
set version = work.version + 1, attempts = 0, due_at = now(), error = null, set_aside_at = null;

-- name: wake
-- Tell listening workers that there is something to do, once this transaction commits.
select pg_notify('roomlore_work', %(stage)s);

-- name: take -> Task
-- Take a fair batch of due work, over all orgs or of one only, and lease it.
select org_id, subject_id, version, attempts
from take_work(%(stage)s, %(only_org)s, %(per_org)s, %(total)s, %(lease)s);

-- name: count -> WorkCount
-- How much is waiting and how much was set aside, over all orgs or in one.
select waiting, set_aside from count_work(%(stage)s, %(only_org)s);

-- name: build_vector_indexes -> Built
-- Give every large partition of vectors its approximate index.
select build_vector_indexes(%(worth_it)s) as indexes;

-- name: finish -> Finished
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
  due_at = now() + least(%(retry)s::interval * power(4, work.attempts), interval '1 hour'),
  set_aside_at = case when work.attempts >= %(last_attempt)s then now() end
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
where org_id = %(org_id)s and stage = %(stage)s and subject_id = any (%(subject_ids)s);

-- name: texts_to_embed -> TextToEmbed
-- What is to be embedded: the text, who said it and where.
select id as message_id, room_id, author_name, body
from messages
where org_id = %(org_id)s and id = any (%(message_ids)s) and redacted_at is null;

-- name: put_embeddings
-- Write vectors, replacing older ones of the same model; a message redacted meanwhile gets none.
insert into message_embeddings (org_id, message_id, room_id, model, embedding)
select %(org_id)s, messages.id, messages.room_id, %(model)s, made.embedding
from unnest(%(message_id)s::uuid[], %(embedding)s::halfvec[]) as made (message_id, embedding)
join messages
  on messages.org_id = %(org_id)s and messages.id = made.message_id and messages.redacted_at is null
on conflict (org_id, message_id, model) do update
set embedding = excluded.embedding;

-- name: drop_embeddings
-- Remove the vectors of messages.
delete from message_embeddings where org_id = %(org_id)s and message_id = any (%(message_ids)s);
