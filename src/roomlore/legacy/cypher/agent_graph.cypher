// A query begins with `// name: agent_memories` and a line that says what it does. All of them only read. A page begins
// after a node or relationship: the ids that Neo4j itself gives them are in the order in which it scans them.
// Nodes of Roomlore's own indexes have the label Subject; they are never read.

// name: agent_memories
// Memories of agents with their tags, the agents that they involve, and the agents that own them.
MATCH (m:AgentMemory)
WHERE id(m) > $after AND NOT m:Subject
WITH m ORDER BY id(m) LIMIT $limit
RETURN
  id(m) AS place, properties(m) AS fields,
  [(m)-[:TAGGED]->(t) | t.name] AS tags,
  [(m)-[:INVOLVES]->(a) | a.name] AS involved,
  [(m)<-[:HAS_MEMORY]-(a) | a.name] AS owners
ORDER BY place

// name: user_memories
// Memories of users, with those who have them and those who wrote them.
MATCH (m:Memory)
WHERE id(m) > $after AND NOT m:Subject
WITH m ORDER BY id(m) LIMIT $limit
RETURN
  id(m) AS place, properties(m) AS fields,
  [(m)<-[:HAS_MEMORY]-(u) | u{.id, .name, .is_bot, labels: labels(u)}] AS owners,
  [(m)<-[:AUTHORED]-(u) | u{.id, .name, .is_bot, labels: labels(u)}] AS authors,
  [(m)-[:TAGGED]->(t) | t.name] AS tags
ORDER BY place

// name: facts
// What is known about users.
MATCH (u)-[f:FACT]->(e:Entity)
WHERE id(f) > $after AND NOT u:Subject
WITH u, f, e ORDER BY id(f) LIMIT $limit
RETURN
  id(f) AS place, properties(f) AS fields, properties(e) AS entity, u{.id, .name, .is_bot, labels: labels(u)} AS user
ORDER BY place

// name: relationships
// What is stored between two users or agents, such as how far one trusts the other.
MATCH (u)-[r:TALKED_TO|TRUSTS|KNOWS|RELATIONSHIP|HAS_RELATIONSHIP|RELATED_TO|INTERACTED_WITH|WORKED_WITH]->(o)
WHERE id(r) > $after AND NOT u:Subject AND NOT u:Tag AND NOT u:Entity AND NOT o:Tag AND NOT o:Entity
WITH u, r, o ORDER BY id(r) LIMIT $limit
RETURN
  id(r) AS place, type(r) AS type, properties(r) AS fields,
  u{.id, .name, .is_bot, labels: labels(u)} AS user, o{.id, .name, .is_bot, labels: labels(o)} AS other
ORDER BY place
