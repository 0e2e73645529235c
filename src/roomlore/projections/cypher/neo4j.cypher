// A query begins with `// name: create_nodes` and a line that says what it does. Labels and kinds cannot be parameters:
// <label>, <other_labels>, <kind>, <from> and <to> are filled in from the closed lists of the domain, never from data.
// A subject that nothing but edges is known of is a stub: it has no digest. One that lost an edge of its own has an empty
// digest until it is written again. The version of an edge is that by which the edges of its kind were last written.

// name: constrain_subjects
// One node per subject and copy; what finds them by id, and lists them in its order.
CREATE CONSTRAINT roomlore_subject IF NOT EXISTS FOR (n:Subject) REQUIRE (n.copy, n.id) IS UNIQUE

// name: constrain_copies
// One node per copy, which tells an empty one from one that is gone.
CREATE CONSTRAINT roomlore_copy IF NOT EXISTS FOR (c:Copy) REQUIRE c.name IS UNIQUE

// name: index_bots
// Finds the bots of a copy.
CREATE INDEX roomlore_bots IF NOT EXISTS FOR (n:User) ON (n.copy, n.is_bot)

// name: prepare_copy
// Let there be a copy, and say whether it is one that somebody began to remove.
MERGE (c:Copy {name: $copy})
RETURN coalesce(c.leaving, false) AS leaving

// name: lock_copy
// Nobody else writes to this copy until the transaction ends; no row where there is none, or it is being removed.
MATCH (c:Copy {name: $copy})
SET c.name = $copy
WITH c WHERE c.leaving IS NULL
RETURN c.name AS name

// name: find_copy
// No row where there is none, or it is being removed.
MATCH (c:Copy {name: $copy})
WHERE c.leaving IS NULL
RETURN c.name AS name

// name: lock_known
// The same, with those of the subjects that are there, each with its version and digest, and what edges it owns.
MATCH (c:Copy {name: $copy})
SET c.name = $copy
WITH c WHERE c.leaving IS NULL
RETURN COLLECT {
  UNWIND $ids AS id
  MATCH (n:Subject {copy: $copy, id: id})
  RETURN [id, n.version, n.digest, n.owned]
} AS known

// name: create_nodes
// Write nodes that are not there.
UNWIND $rows AS row
CREATE (n:Subject:<label>)
SET n = row{.*, copy: $copy, version: $version}

// name: replace_nodes
// Write nodes in place of older ones, or of stubs.
UNWIND $rows AS row
MATCH (n:Subject {copy: $copy, id: row.id})
SET n = row{.*, copy: $copy, version: $version}
REMOVE n:<other_labels>
SET n:<label>

// name: renew_nodes
// Let nodes that are there as they are to be have a newer version.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
SET n.version = $version

// name: create_edges
// Write edges of nodes that were not there before, and stubs for what they lead to.
UNWIND range(0, size($ids) - 1) AS place
MATCH (n:Subject {copy: $copy, id: $ids[place]})
MERGE (t:Subject {copy: $copy, id: $targets[place]})
ON CREATE SET t.version = -1, t:<label>
CREATE (n)<from>[r:<kind> {incoming: $incoming, version: $version}]<to>(t)
SET r += coalesce($properties[place], {})

// name: merge_edges
// Write edges of nodes that were there before, and stubs for what they lead to.
UNWIND range(0, size($ids) - 1) AS place
MATCH (n:Subject {copy: $copy, id: $ids[place]})
MERGE (t:Subject {copy: $copy, id: $targets[place]})
ON CREATE SET t.version = -1, t:<label>
MERGE (n)<from>[r:<kind> {incoming: $incoming}]<to>(t)
WITH r, coalesce($properties[place], {}) AS own
SET r = own{.*, incoming: $incoming, version: $version}

// name: delete_edges
// Delete the edges of a kind that nodes owned and that were not written again; return the stubs they led to.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
MATCH (n)<from>[r:<kind>]<to>(t:Subject)
WHERE r.incoming = $incoming AND r.version < $version
DELETE r
RETURN DISTINCT CASE WHEN t.digest IS NULL THEN t.id END AS stub

// name: distrust_nodes
// Let any version take the place of nodes; return the kinds of edges that each owns.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
SET n.version = -1
RETURN n.id AS id, coalesce(n.owned, '') AS owned

// name: distrust_edges
// Let any version take the place of the edges of a kind that nodes own.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
MATCH (n)<from>[r:<kind>]<to>(:Subject)
WHERE r.incoming = $incoming
SET r.version = -1

// name: delete_stubs
// Delete those of the subjects that nothing leads to and nothing is known of.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
WHERE n.digest IS NULL AND NOT (n)--()
DELETE n

// name: cut_nodes
// Delete so many edges of nodes, and empty the digests of those who own them; return what each led to, if that is a stub.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
MATCH (n)-[r]-(t:Subject)
WITH DISTINCT r, t LIMIT $limit
SET (CASE WHEN $leaving THEN null WHEN r.incoming THEN endNode(r) ELSE startNode(r) END).digest = ''
DELETE r
RETURN CASE WHEN t.digest IS NULL THEN t.id END AS stub

// name: drop_nodes
// Delete nodes, and the few edges that came meanwhile.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
DETACH DELETE n

// name: count_edges
// How many edges of a kind each of these nodes owns.
UNWIND $ids AS id
MATCH (n:Subject {copy: $copy, id: id})
RETURN n.id AS id, COUNT { MATCH (n)<from>[r:<kind>]<to>(:Subject) WHERE r.incoming = $incoming } AS count

// name: held
// The nodes behind an id, in the order of ids, without stubs; the edges that each owned when it was written.
MATCH (n:Subject)
WHERE n.copy = $copy AND n.id > $after AND n.digest IS NOT NULL
RETURN n.id AS id, n.digest AS digest, coalesce(n.owned, '') AS owned, n.edges AS edges
ORDER BY n.copy, n.id
LIMIT $limit

// name: copies
// The names of all copies.
MATCH (c:Copy)
WHERE c.name IS NOT NULL
RETURN c.name AS name
ORDER BY name

// name: leave_copy
// Nothing is written to this copy from here on.
MATCH (c:Copy {name: $copy})
SET c.leaving = true
RETURN c.name AS name

// name: some_of
// So many of the ids of a copy, those of stubs, too; the index is not used without an id.
MATCH (n:Subject)
WHERE n.copy = $copy AND n.id > ''
RETURN n.id AS id
LIMIT $limit

// name: remove_copy
// Delete what says that the copy is there.
MATCH (c:Copy {name: $copy})
WHERE c.leaving = true
DELETE c

// name: heard
// Part of other questions: whether a message or notice is for the viewer. Whatever is not known of it makes it nobody's.
<it>.digest IS NOT NULL AND (
  $operator
  OR <it>.author_id IN $own
  OR (<it>.kind = 'whisper' AND any(one IN <it>.audience WHERE one IN $own))
  OR (<it>.kind IN ['message', 'system'] AND (
    <it>.room_id IN $open
    OR any(stay IN $stays[<it>.room_id] WHERE
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
      OR EXISTS { MATCH (<it>)-[:HAS_MEMORY|INVOLVES]-(named:Subject) WHERE named.id IN $own }
    )
  )
)

// name: followed
// Part of other questions: whether a conversation is for the viewer: all that was said in it is.
<it>.digest IS NOT NULL AND EXISTS { MATCH (<it>)<-[:IN_CONVERSATION]-(:Subject) } AND NOT EXISTS {
  MATCH (<it>)<-[:IN_CONVERSATION]-(said:Subject) WHERE NOT coalesce(<heard said>, false)
}

// name: said_by_bots
// What bots said, newest first.
MATCH (u:User)
WHERE u.copy = $copy AND u.is_bot = true
MATCH (u)-[:AUTHORED]->(m:Message)
WHERE <heard m>
RETURN m.id AS id
ORDER BY m.sent_at DESC, m.native_order DESC, m.id DESC
LIMIT $limit

// name: said_by
// What somebody said, newest first.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)-[:AUTHORED]->(m:Message)
WHERE <heard m>
RETURN m.id AS id
ORDER BY m.sent_at DESC, m.native_order DESC, m.id DESC
LIMIT $limit

// name: known_by_bots
// What bots remember, newest first.
MATCH (u:User)
WHERE u.copy = $copy AND u.is_bot = true
MATCH (u)-[:HAS_MEMORY]->(m:Memory)
WITH DISTINCT m
WHERE <recalled m>
RETURN m.id AS id
ORDER BY m.valid_from DESC, id DESC
LIMIT $limit

// name: known_by
// What somebody remembers, newest first.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)-[:HAS_MEMORY]->(m:Memory)
WITH DISTINCT m
WHERE <recalled m>
RETURN m.id AS id
ORDER BY m.valid_from DESC, id DESC
LIMIT $limit

// name: known_about
// What is remembered about somebody, newest first.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)<-[:ABOUT]-(m:Memory)
WITH DISTINCT m
WHERE <recalled m>
RETURN m.id AS id
ORDER BY m.valid_from DESC, id DESC
LIMIT $limit

// name: talked_to
// Whom somebody answered or was answered by, how often, and when last: of each reply the time of its own.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)-[:AUTHORED]->(m:Message)
WHERE <heard m>
MATCH (m)-[r:REPLIED_TO]-(o:Message)
WHERE <heard o>
MATCH (o)<-[:AUTHORED]-(v:User)
WHERE NOT v.id IN $participants
RETURN
  v.id AS id, count(*) AS count, max(CASE WHEN startNode(r) = m THEN m.sent_at ELSE o.sent_at END) AS last
ORDER BY count DESC, last DESC, id
LIMIT $limit

// name: memories_near
// Memories about somebody or that involve them.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)<-[r:ABOUT|INVOLVES]-(m:Memory)
WITH m, collect(DISTINCT type(r)) AS ties
WHERE <recalled m>
RETURN
  m.id AS id, m.kind AS kind,
  CASE WHEN 'ABOUT' IN ties THEN $about ELSE 0 END + CASE WHEN 'INVOLVES' IN ties THEN $involves ELSE 0 END AS count
ORDER BY count DESC, id DESC
LIMIT $limit

// name: tags_near
// Tags of the memories about somebody or that involve them.
MATCH (u:Subject)
WHERE u.copy = $copy AND u.id IN $participants
MATCH (u)<-[:ABOUT|INVOLVES]-(m:Memory)
WITH DISTINCT m
WHERE <recalled m>
MATCH (m)-[:TAGGED]->(t:Tag)
RETURN t.id AS id, count(*) AS count
ORDER BY count DESC, id
LIMIT $limit

// name: present_in
// Who wrote in a conversation.
MATCH (c:Subject {copy: $copy, id: $conversation})
WHERE <followed c>
MATCH (c)<-[:IN_CONVERSATION]-(m:Message)<-[:AUTHORED]-(u:User)
WHERE <heard m>
RETURN u.id AS id, count(*) AS count, max(m.sent_at) AS last
ORDER BY count DESC, last DESC, id
LIMIT $limit

// name: memories_for
// Memories that rest on a conversation, or name some of those present; those of the tags of the first weigh more.
MATCH (c:Subject {copy: $copy, id: $conversation})
WHERE <followed c>
WITH
  COLLECT {
    MATCH (c)<-[:IN_CONVERSATION]-(:Message)<-[:RESTS_ON]-(m:Memory)
    WITH DISTINCT m
    WHERE <recalled m>
    RETURN m
  } AS resting
WITH resting, COLLECT { UNWIND resting AS m MATCH (m)-[:TAGGED]->(t:Tag) RETURN DISTINCT t } AS topic
WITH resting, topic,
  COLLECT {
    MATCH (u:Subject)<-[:ABOUT|INVOLVES]-(m:Memory)
    WHERE u.copy = $copy AND u.id IN $participants
    WITH DISTINCT m
    WHERE <recalled m>
    RETURN m
  } AS naming
UNWIND resting + naming AS m
WITH DISTINCT m, resting, topic
WITH
  m,
  CASE WHEN m IN resting THEN $rests_on ELSE 0 END
    + CASE WHEN any(t IN topic WHERE EXISTS { (m)-[:TAGGED]->(t) }) THEN $tagged ELSE 0 END
    + $about * COUNT { MATCH (m)-[:ABOUT]->(u:Subject) WHERE u.id IN $participants }
    + $involves * COUNT { MATCH (m)-[:INVOLVES]->(u:Subject) WHERE u.id IN $participants } AS count
RETURN m.id AS id, m.kind AS kind, count
ORDER BY count DESC, id DESC
LIMIT $limit
