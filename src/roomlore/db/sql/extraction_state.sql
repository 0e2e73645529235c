-- name: pending
-- Until its room is disentangled, a conversation may lose messages or become sensitive.
-- Uses index: conversations_undrawn
select id, room_id, sensitivity, current_extraction_state(conversations) as state
from conversations
where org_id = %(org_id)s
  and extraction_state is null
  and extraction_error is null
  and is_over(conversations, %(now)s)
  and exists (
    select 1
    from conversation_messages
    where conversation_messages.org_id = conversations.org_id and conversation_messages.conversation_id = conversations.id
  )
  and not exists (
    select 1
    from work_queue
    where work_queue.org_id = conversations.org_id and work_queue.queue = 'disentangle' and work_queue.subject_id = conversations.room_id
  )
order by last_at desc, id
limit %(limit)s;

-- name: requested
select id, room_id, sensitivity, current_extraction_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(ids)s)
order by id;

-- name: conversations_in
select id
from conversations
where org_id = %(org_id)s and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by last_at desc, id;

-- name: message_ids
-- Uses index: conversation_messages_in
select message_id
from conversation_messages
where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: message_texts
-- One index lookup for each message, whatever the planner estimates.
-- Uses index: conversation_messages_in
select
  conversation_messages.conversation_id, said.id as message_id, said.author_id, said.author_name, said.author_kind, said.kind,
  said.body, said.sent_at, stated.parent_id as answers
from conversation_messages
cross join lateral (
  select messages.*
  from messages
  where messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
  limit 1
) as said
left join lateral (
  select answers.parent_id
  from answers
  where answers.org_id = said.org_id and answers.child_id = said.id
  offset 0
) as stated on true
where conversation_messages.org_id = %(org_id)s
  and conversation_messages.conversation_id = any (%(ids)s)
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and said.body ~ '\S'
  and not (
    %(shown)s
    and exists (
      select 1 from restricted_messages where restricted_messages.org_id = said.org_id and restricted_messages.message_id = said.id
    )
  )
order by conversation_messages.conversation_id, said.sent_at, said.sequence, said.id;

-- name: room_participants
select
  members.room_id, participants.id, participants.name, participants.kind,
  array(
    select participants.first_name where participants.first_name <> participants.name
    union
    select called.name
    from platform_accounts
    cross join lateral (values (platform_accounts.persona), (platform_accounts.account_id)) as called (name)
    where platform_accounts.org_id = participants.org_id
      and platform_accounts.participant_id = participants.id
      and called.name ~ '[[:alpha:]]'
      and called.name <> participants.name
    order by 1
  ) as names
from (
  select room_id, participant_id from room_activity where org_id = %(org_id)s and room_id = any (%(room_ids)s)
  union
  select room_id, participant_id from memberships where org_id = %(org_id)s and room_id = any (%(room_ids)s)
) as members
join participants on participants.org_id = %(org_id)s and participants.id = members.participant_id
where participants.kind <> 'system'
order by members.room_id, participants.id;

-- name: lock
select
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s)
order by id
for update;

-- name: states
-- This is a separate statement, so that it sees all changes from before the rows were locked.
select id, current_extraction_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: record_extracted
update conversations
set extraction_state = noted.state, extraction_error = null
from unnest(%(states_1)s::uuid[], %(states_2)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: record_read_by_llm
update conversations
set llm_extraction_state = noted.state
from unnest(%(states_1)s::uuid[], %(states_2)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: dead_letter
update conversations
set extraction_error = %(error)s, extraction_state = null
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: retry
-- Uses index: conversations_extraction_failed
update conversations set extraction_error = null where org_id = %(org_id)s and extraction_error is not null;

-- name: mark_changed
update conversations as held
set
  extraction_state = case when held.extraction_state = now.state then held.extraction_state end,
  llm_extraction_state = case when held.llm_extraction_state = now.state then held.llm_extraction_state end,
  extraction_error = null
from (
  select id, current_extraction_state(conversations) as state
  from conversations
  where org_id = %(org_id)s
    and id = any (%(conversation_ids)s)
    and (extraction_state is not null or llm_extraction_state is not null or extraction_error is not null)
) as now
where held.org_id = %(org_id)s
  and held.id = now.id
  and (held.extraction_state <> now.state or held.llm_extraction_state <> now.state or held.extraction_error is not null);

-- name: update_sensitivity
-- Uses indexes: conversation_messages_in, memory_sources_of_message
with hushed as (
  update memories
  set sensitivity = 'sensitive', is_conversation_sensitive = true
  where memories.org_id = %(org_id)s
    and memories.sensitivity = 'normal'
    and memories.id in (
      select source.memory_id
      from conversations
      join conversation_messages on conversation_messages.org_id = conversations.org_id and conversation_messages.conversation_id = conversations.id
      join memory_sources as source on source.org_id = conversation_messages.org_id and source.message_id = conversation_messages.message_id
      where conversations.org_id = %(org_id)s
        and conversations.id = any (%(conversation_ids)s)
        and conversations.sensitivity = 'sensitive'
    )
  returning memories.id
),
unhushed as (
  update memories
  set sensitivity = 'normal', is_conversation_sensitive = false
  where memories.org_id = %(org_id)s
    and memories.is_conversation_sensitive
    and memories.id in (
      select source.memory_id
      from conversation_messages
      join memory_sources as source on source.org_id = conversation_messages.org_id and source.message_id = conversation_messages.message_id
      where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = any (%(conversation_ids)s)
    )
    and not exists (
      select 1
      from memory_sources as source
      join conversation_messages on conversation_messages.org_id = source.org_id and conversation_messages.message_id = source.message_id
      join conversations
        on conversations.org_id = conversation_messages.org_id and conversations.id = conversation_messages.conversation_id
      where source.org_id = %(org_id)s
        and source.memory_id = memories.id
        and conversations.sensitivity = 'sensitive'
    )
  returning memories.id
)
select id from hushed
union all
select id from unhushed;

-- name: reextract
update conversations
set extraction_state = null, llm_extraction_state = null, extraction_error = null
where org_id = %(org_id)s
  and id in (
    select conversation_id from conversation_messages where org_id = %(org_id)s and message_id = any (%(message_ids)s)
  );

-- name: reextract_sources
update conversations
set extraction_state = null, llm_extraction_state = null, extraction_error = null
where org_id = %(org_id)s
  and id in (
    select conversation_messages.conversation_id
    from memory_sources
    join conversation_messages on conversation_messages.org_id = memory_sources.org_id and conversation_messages.message_id = memory_sources.message_id
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = any (%(memory_ids)s)
  );

-- name: coverage
select
  conversations.room_id,
  coalesce(sum(held.count) filter (where conversations.extraction_state is not null), 0)::bigint as done,
  count(*) filter (
    where conversations.extraction_state is null and conversations.extraction_error is null and is_over(conversations, %(now)s)
  ) as waiting,
  count(*) filter (where conversations.extraction_error is not null) as dead_lettered,
  min(least(conversations.last_at + conversations.idle_timeout, conversations.closed_at)) filter (
    where conversations.extraction_state is null and conversations.extraction_error is null and is_over(conversations, %(now)s)
  ) as oldest_at
from (
  select conversation_id, count(*) as count from conversation_messages where org_id = %(org_id)s group by conversation_id
) as held
join conversations on conversations.org_id = %(org_id)s and conversations.id = held.conversation_id
group by conversations.room_id;
