-- name: dense_matches
select memory_id, similarity from dense_memories(%(vector_2)s::halfvec, %(vector_1)s, %(wanted)s);

-- name: similarities
select memory_id, 1 - (embedding <=> %(vector_2)s::halfvec) as similarity
from memory_embeddings
where org_id = %(org_id)s and memory_id = any (%(ids)s) and model = %(vector_1)s;

-- name: drop_work
-- This comes before the vectors: a worker that writes a vector holds its row in `work_queue`, so no vector follows.
delete from work_queue
where org_id = %(org_id)s and queue in ('embed', 'reembed') and subject_id = any (%(ids)s);

-- name: drop_embeddings
delete from memory_embeddings where org_id = %(org_id)s and memory_id = any (%(ids)s);
