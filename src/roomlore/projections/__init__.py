"""Projections: optional indexes of messages and memories in Qdrant and Neo4j.

PostgreSQL is the source of truth. An index can be dropped, rebuilt and compared at any time. The flow:

1. `jobs` reads changes and builds the subjects: `Point` for Qdrant, `Node` for Neo4j (`domain.projections`).
2. `put` keeps the newest version of each subject (`server.newest_versions`) and sends batches. The server itself
   replaces a subject only by a newer version, so the order of two writers does not matter. A refused batch is halved
   until only the refused subjects are left (`server.write_halving`); these are named in a `BadInput`.
3. `stored_digests` lists ids and digests, so that `jobs` can compare the index with the database.
4. Searches and graph queries take a `VisibilityFilter` and return ids only. PostgreSQL checks these and reads the rest.

`server` has the code that both projections share. `qdrant` and `neo4j` are the projections; they can be imported
without the extra. `qdrant_connection` and `neo4j_connection` wrap the client libraries and translate their errors.
`neo4j_queries` reads the graph. An index is called `copy` in parameters and in the graph, because stored data uses that
name.
"""
