-- The vectors of memories: found by, and gone with what they were made of.

-- name: nearest -> DenseMatch
-- The visible memories whose vectors are nearest, nearest first.
select memory_id, similarity from nearest_memories(%(vector)s::halfvec, %(model)s, %(wanted)s);

-- name: similarities -> DenseMatch
-- How near the vectors of these memories are, as far as they are visible and have one.
select memory_id, 1 - (embedding <=> %(vector)s::halfvec) as similarity
from memory_embeddings
where org_id = %(org_id)s and memory_id = any (%(memory_ids)s) and model = %(model)s;

-- name: drop_work
-- Drop what is asked of embedding models for these memories. Whoever is just writing a vector holds the work's row, so
-- that what is dropped after this is dropped for good.
delete from work
where org_id = %(org_id)s and stage in ('embed', 'reembed') and subject_id = any (%(memory_ids)s);

-- name: drop
-- Remove the vectors of memories.
delete from memory_embeddings where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);
