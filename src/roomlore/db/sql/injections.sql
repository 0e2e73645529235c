-- name: enqueue_added
insert into work_queue (org_id, queue, subject_id)
select %(org_id)s, 'inject', added.id
from pg_temp.incoming as added
where added.kind in ('message', 'whisper')
  and added.redacted_at is null
  and added.sent_at > now() - %(max_age)s::interval
  and added.body ~ '\S'
  and exists (select 1 from rooms where rooms.org_id = %(org_id)s and rooms.id = added.room_id and rooms.is_injection_enabled)
  and exists (
    select 1
    from memberships
    join participants on participants.org_id = memberships.org_id and participants.id = memberships.participant_id
    where memberships.org_id = %(org_id)s
      and memberships.room_id = added.room_id
      and memberships.left_at is null
      and participants.kind = 'agent'
      and participants.id <> added.author_id
  )
on conflict (org_id, queue, subject_id) do nothing;

-- name: injection_targets
select
  said.id as message_id, said.room_id, said.kind = 'whisper' as is_whisper, said.body, said.sent_at, agent.id as agent_id
from messages as said
join rooms on rooms.org_id = said.org_id and rooms.id = said.room_id
cross join lateral (
  select distinct participants.id
  from memberships
  join participants on participants.org_id = memberships.org_id and participants.id = memberships.participant_id
  where memberships.org_id = said.org_id
    and memberships.room_id = said.room_id
    and memberships.joined_at <= said.sent_at
    and memberships.left_at is null
    and participants.kind = 'agent'
    and participants.id <> said.author_id
    and (
      said.kind <> 'whisper'
      or exists (
        select 1
        from message_audience
        where message_audience.org_id = said.org_id
          and message_audience.message_id = said.id
          and message_audience.participant_id = participants.id
      )
    )
) as agent
where said.org_id = %(org_id)s
  and said.id = any (%(message_ids)s)
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and rooms.is_injection_enabled
  and not exists (
    select 1
    from injections
    where injections.org_id = said.org_id
      and injections.room_id = said.room_id
      and injections.agent_id = agent.id
      and (injections.injected_at > %(rested_at)s or injections.trigger_id = said.id)
  )
order by said.sent_at, said.sequence, said.id, agent.id;

-- name: delivered_ids
-- Uses index: injections_given
select injections.memory_id
from injections
join rooms on rooms.org_id = injections.org_id and rooms.id = injections.room_id
where injections.org_id = %(org_id)s
  and injections.room_id = %(room_id)s
  and injections.agent_id = %(agent_id)s
  and injections.memory_id = any (%(memory_ids)s)
  and injections.injected_at > coalesce(rooms.context_reset_at, '-infinity');

-- name: delivered_by_messages
select memory_id from injections where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: is_cooled_down
-- Uses index: injections_given
select not exists (
  select 1
  from injections
  where org_id = %(org_id)s and room_id = %(room_id)s and agent_id = %(agent_id)s and injected_at > %(since)s
) as has_rested;

-- name: deliver
with giving as (
  select
    stated.id, stated.memory_id, stated.body, stated.place,
    said.room_id, said.sent_at - stated.place * interval '1 microsecond' as sent_at, said.sequence
  from unnest(%(id)s::uuid[], %(memory_id)s::uuid[], %(body)s::text[]) with ordinality as stated (id, memory_id, body, place)
  join messages as said on said.org_id = %(org_id)s and said.id = %(trigger_id)s and said.redacted_at is null
  join rooms on rooms.org_id = said.org_id and rooms.id = said.room_id
  join memories on memories.org_id = said.org_id and memories.id = stated.memory_id and memories.status = 'active'
  where not exists (
    select 1
    from injections
    where injections.org_id = %(org_id)s
      and injections.room_id = said.room_id
      and injections.agent_id = %(agent_id)s
      and injections.memory_id = stated.memory_id
      and injections.injected_at > coalesce(rooms.context_reset_at, '-infinity')
  )
),
said as (
  insert into messages (
    org_id, id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision, sequence,
    received_at, metadata, is_directed
  )
  select
    %(org_id)s, id, room_id, 'roomlore-' || id, 'context_injection', %(author_id)s, %(author_name)s, 'system', body,
    sent_at, 'us', sequence, %(at)s, jsonb_build_object('memory_id', memory_id), true
  from giving
),
addressed as (
  insert into message_audience (org_id, message_id, participant_id)
  select %(org_id)s, id, %(agent_id)s from giving
)
insert into injections (org_id, message_id, room_id, agent_id, memory_id, trigger_id, injected_at)
select %(org_id)s, id, room_id, %(agent_id)s, memory_id, %(trigger_id)s, %(at)s from giving;

-- name: forget_memories
-- Uses index: injections_of_memory
delete from injections
where org_id = %(org_id)s and memory_id = any (%(memory_ids)s)
returning message_id;

-- name: forget_agents
-- Uses index: injections_to
delete from injections
where org_id = %(org_id)s and agent_id = any (%(agent_ids)s)
returning message_id;

-- name: carrying_inactive
select injections.message_id
from injections
join memories on memories.org_id = injections.org_id and memories.id = injections.memory_id
where injections.org_id = %(org_id)s and memories.status <> 'active'
limit %(limit)s;

-- name: forget_messages
-- Uses index: injections_by_trigger
delete from injections
where org_id = %(org_id)s and (message_id = any (%(message_ids)s) or trigger_id = any (%(message_ids)s))
returning message_id;

-- name: delete_replies
delete from replies
where org_id = %(org_id)s and (child_id = any (%(message_ids)s) or parent_id = any (%(message_ids)s));

-- name: delete_audiences
delete from message_audience where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: delete_messages
delete from messages where org_id = %(org_id)s and id = any (%(message_ids)s) and is_directed;

-- name: reset_context
update rooms
set context_reset_at = greatest(context_reset_at, %(at)s)
where org_id = %(org_id)s and id = %(room_id)s;

-- name: set_enabled
update rooms set is_injection_enabled = %(is_enabled)s where org_id = %(org_id)s and id = %(room_id)s;
