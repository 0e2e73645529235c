-- name: projects
select {projects}
from projects;

-- name: agents
select {agents}
from agents;

-- name: orgs_of_project_chat_messages
select distinct org_id::text as org_id
from project_chat_messages;

-- name: orgs_of_agent_memories
select distinct org_id::text as org_id
from agent_memories;

-- name: orgs_of_memory_entries
select distinct org_id::text as org_id
from memory_entries;

-- name: orgs_of_shared_knowledge
select distinct org_id::text as org_id
from shared_knowledge;

-- name: project_chat_messages
select {project_chat_messages}
from project_chat_messages
where %(org)s::text is null or org_id::text = %(org)s
order by project_chat_messages.created_at, project_chat_messages.id;

-- name: agent_memories
select {agent_memories}
from agent_memories
where %(org)s::text is null or org_id::text = %(org)s
order by agent_memories.created_at, agent_memories.id;

-- name: memory_entries
select {memory_entries}
from memory_entries
where %(org)s::text is null or org_id::text = %(org)s
order by memory_entries.status <> 'active', memory_entries.occurred_at, memory_entries.id;

-- name: shared_knowledge
select {shared_knowledge}
from shared_knowledge
where %(org)s::text is null or org_id::text = %(org)s
order by shared_knowledge.status <> 'active', shared_knowledge.occurred_at, shared_knowledge.id;
