// A query begins with `// name: create_nodes` and a line that says what it does. Labels and kinds cannot be parameters:
// <label>, <other_labels>, <kind>, <from> and <to> come from closed lists in the code, never from data.
// A stub is the target of an edge that is not written itself; it has no digest. A node that lost one of its edges has an
// empty digest until it is written again. The version of an edge is the one that last wrote the edges of its kind.

// name: constrain_subjects
// One node per subject and index (copy); finds nodes by id, and lists them ordered by id.
CREATE CONSTRAINT roomlore_subject IF NOT EXISTS FOR (n:Subject) REQUIRE (n.copy, n.uuid) IS UNIQUE

// name: drop_old_constraint
// Indexes of older versions kept the uuid of a subject in `id`.
DROP CONSTRAINT roomlore_subject IF EXISTS

// name: constrain_copies
// One node per index; distinguishes an empty index from a missing one.
CREATE CONSTRAINT roomlore_copy IF NOT EXISTS FOR (c:Copy) REQUIRE c.name IS UNIQUE

// name: index_bots
// Finds the bots of an index.
CREATE INDEX roomlore_bots IF NOT EXISTS FOR (n:User) ON (n.copy, n.is_bot)

// name: index_users
// Finds participants by the id of their account on a platform.
CREATE INDEX roomlore_users IF NOT EXISTS FOR (n:User) ON (n.id)

// name: index_messages
// Finds messages by their id on a platform.
CREATE INDEX roomlore_messages IF NOT EXISTS FOR (n:Message) ON (n.id)

// name: prepare_copy
// Create an index, unless it exists; return whether its removal has begun.
MERGE (c:Copy {name: $copy})
ON CREATE SET c.layout = $layout
RETURN coalesce(c.leaving, false) AS leaving

// name: lock_copy
// Lock an index until the transaction ends; no row if it does not exist or is being removed.
MATCH (c:Copy {name: $copy})
SET c.name = $copy
WITH c WHERE c.leaving IS NULL AND c.layout = $layout
RETURN c.name AS name

// name: find_copy
// No row if the index does not exist or is being removed.
MATCH (c:Copy {name: $copy})
WHERE c.leaving IS NULL AND c.layout = $layout
RETURN c.name AS name

// name: lock_known
// Lock an index; return the existing nodes, each with its version, its digest and the edges that it owns.
MATCH (c:Copy {name: $copy})
SET c.name = $copy
WITH c WHERE c.leaving IS NULL AND c.layout = $layout
RETURN COLLECT {
  UNWIND $ids AS id
  MATCH (n:Subject {copy: $copy, uuid: id})
  RETURN [id, n.version, n.digest, n.owned]
} AS known

// name: create_nodes
// Create new nodes.
UNWIND $rows AS row
CREATE (n:Subject:<label>)
SET n = row{.*, copy: $copy, version: $version}

// name: replace_nodes
// Replace older nodes and stubs.
UNWIND $rows AS row
MATCH (n:Subject {copy: $copy, uuid: row.uuid})
SET n = row{.*, copy: $copy, version: $version}
REMOVE n:<other_labels>
SET n:<label>

// name: renew_nodes
// Set a newer version on nodes that did not change.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
SET n.version = $version

// name: create_edges
// Create the edges of new nodes, and stubs for missing targets.
UNWIND range(0, size($ids) - 1) AS place
MATCH (n:Subject {copy: $copy, uuid: $ids[place]})
MERGE (t:Subject {copy: $copy, uuid: $targets[place]})
ON CREATE SET t.version = -1, t:<label>
CREATE (n)<from>[r:<kind> {incoming: $incoming, version: $version}]<to>(t)
SET r += coalesce($properties[place], {})

// name: merge_edges
// Create or update the edges of existing nodes, and stubs for missing targets.
UNWIND range(0, size($ids) - 1) AS place
MATCH (n:Subject {copy: $copy, uuid: $ids[place]})
MERGE (t:Subject {copy: $copy, uuid: $targets[place]})
ON CREATE SET t.version = -1, t:<label>
MERGE (n)<from>[r:<kind> {incoming: $incoming}]<to>(t)
WITH r, coalesce($properties[place], {}) AS own
SET r = own{.*, incoming: $incoming, version: $version}

// name: name_stubs
// Set or remove the names of nodes that only edges describe: tags.
UNWIND range(0, size($targets) - 1) AS place
MATCH (t:Subject {copy: $copy, uuid: $targets[place]})
WHERE t.digest IS NULL
SET t.name = $names[place]

// name: delete_edges
// Delete the edges of a kind that these nodes own and that this version did not write; return the stubs they led to.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
MATCH (n)<from>[r:<kind>]<to>(t:Subject)
WHERE r.incoming = $incoming AND r.version < $version
DELETE r
RETURN DISTINCT CASE WHEN t.digest IS NULL THEN t.uuid END AS stub

// name: distrust_nodes
// Let any version replace these nodes; return the kinds of edges that each owns.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
SET n.version = -1
RETURN n.uuid AS id, coalesce(n.owned, '') AS owned

// name: distrust_edges
// Let any version replace the edges of a kind that these nodes own.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
MATCH (n)<from>[r:<kind>]<to>(:Subject)
WHERE r.incoming = $incoming
SET r.version = -1

// name: delete_stubs
// Delete stubs without edges.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
WHERE n.digest IS NULL AND NOT (n)--()
DELETE n

// name: cut_nodes
// Delete a limited number of edges of these nodes, and empty the digests of their owners; return the stubs they led to.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
MATCH (n)-[r]-(t:Subject)
WITH DISTINCT r, t LIMIT $limit
SET (CASE WHEN $leaving THEN null WHEN r.incoming THEN endNode(r) ELSE startNode(r) END).digest = ''
DELETE r
RETURN CASE WHEN t.digest IS NULL THEN t.uuid END AS stub

// name: drop_nodes
// Delete nodes, with edges that were added meanwhile.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
DETACH DELETE n

// name: count_edges
// Count the edges of a kind that each node owns.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, uuid: id})
RETURN n.uuid AS id, COUNT { MATCH (n)<from>[r:<kind>]<to>(:Subject) WHERE r.incoming = $incoming } AS count

// name: held
// The nodes after an id, ordered by id, without stubs; with the edges that each owned when it was written.
MATCH (n:Subject)
WHERE n.copy = $copy AND n.uuid > $after AND n.digest IS NOT NULL
RETURN n.uuid AS id, n.digest AS digest, coalesce(n.owned, '') AS owned, n.edges AS edges
ORDER BY n.copy, n.uuid
LIMIT $limit

// name: copies
// The names of all indexes of this layout.
MATCH (c:Copy)
WHERE c.name IS NOT NULL AND c.layout = $layout
RETURN c.name AS name
ORDER BY name

// name: old_copies
// The names of indexes of older versions, which this version cannot read.
MATCH (c:Copy)
WHERE c.name IS NOT NULL AND coalesce(c.layout, 0) <> $layout
RETURN c.name AS name
ORDER BY name

// name: leave_copy
// Begin to remove an index: nothing is written to it any more.
MATCH (c:Copy {name: $copy})
SET c.leaving = true
RETURN c.name AS name

// name: some_of
// Some ids of an index, including stubs; the condition on the id makes Neo4j use its own index.
MATCH (n:Subject)
WHERE n.copy = $copy AND n.uuid > ''
RETURN n.uuid AS id
LIMIT $limit

// name: drop_old_nodes
// Delete some nodes of an index of an older version.
MATCH (n:Subject {copy: $copy})
WHERE n.uuid IS NULL
WITH n LIMIT $limit
DETACH DELETE n
RETURN count(*) AS count

// name: remove_copy
// Delete the node of an index.
MATCH (c:Copy {name: $copy})
WHERE c.leaving = true
DELETE c

// name: heard
// Part of other questions: whether a message or notice is for the viewer. Whatever is not known of it makes it nobody's.
<it>.digest IS NOT NULL AND (
  $operator
  OR <it>.author_uuid IN $own
  OR (<it>.kind = 'whisper' AND any(one IN <it>.audience WHERE one IN $own))
  OR (<it>.kind IN ['message', 'system'] AND (
    <it>.room_uuid IN $open
    OR any(stay IN $stays[<it>.room_uuid] WHERE
      (stay.joined IS NULL OR stay.joined <= <it>.sent_at) AND (stay.left IS NULL OR <it>.sent_at < stay.left))
  ))
)

// name: recalled
// Part of other questions: whether a memory stands and is for the viewer: all that it rests on is, or it rests on nothing
// and is for the org, or is theirs, or was before an operator put it right. Who asserted it is not known here.
<it>.digest IS NOT NULL AND <it>.is_active = true AND (
  $operator
  OR (
    EXISTS { MATCH (<it>)-[:RESTS_ON]->(:Subject) }
    AND NOT EXISTS { MATCH (<it>)-[:RESTS_ON]->(source:Subject) WHERE NOT coalesce(<heard source>, false) }
  )
  OR (
    NOT EXISTS { MATCH (<it>)-[:RESTS_ON]->(:Subject) }
    AND (
      (<it>.is_for_org = true AND size($own) > 0)
      OR EXISTS { MATCH (<it>)-[:HAS_MEMORY|INVOLVES]-(named:Subject) WHERE named.uuid IN $own }
    )
  )
)

// name: messages_by_agents
// What bots said, newest first.
MATCH (u:User)
WHERE u.copy = $copy AND u.is_bot = true
MATCH (u)-[:AUTHORED]->(m:Message)
WHERE <heard m>
RETURN m.uuid AS id
ORDER BY m.sent_at DESC, m.sequence DESC, m.uuid DESC
LIMIT $limit

// name: said_by
// What somebody said, newest first.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.uuid IN $participants
MATCH (u)-[:AUTHORED]->(m:Message)
WHERE <heard m>
RETURN m.uuid AS id
ORDER BY m.sent_at DESC, m.sequence DESC, m.uuid DESC
LIMIT $limit

// name: memories_of_agents
// What bots remember, newest first.
MATCH (u:User)
WHERE u.copy = $copy AND u.is_bot = true
MATCH (u)-[:HAS_MEMORY]->(m:Memory)
WITH DISTINCT m
WHERE <recalled m>
RETURN m.uuid AS id
ORDER BY m.valid_from DESC, id DESC
LIMIT $limit
