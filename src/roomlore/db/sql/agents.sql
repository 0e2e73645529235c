-- name: refresh_interactions
-- Each message has one effective reply. A message in a thread does not count as a reply to the root of the thread.
-- Agreement and correction count only if the platform states which message they answer, or if a name was recognised
-- with high confidence.
-- Uses indexes: conversation_messages_in, replies_from
with said as materialized (
  select conversation_messages.conversation_id, messages.id, messages.author_id, messages.author_kind, messages.sent_at, messages.body
  from conversation_messages
  cross join lateral (
    select id, author_id, author_kind, sent_at, body
    from messages
    where messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id and messages.erased_at is null
    limit 1
  ) as messages
  where conversation_messages.org_id = %(org_id)s
    and conversation_messages.conversation_id = any (%(conversation_ids)s)
    and messages.author_kind in ('human', 'agent')
    -- a scalar subquery: evaluated once, not per message
    and (select true from participants where participants.org_id = %(org_id)s and participants.kind = 'agent' limit 1)
),
agents as materialized (
  select distinct conversation_id, author_id as agent_id from said where author_kind = 'agent'
),
edges as materialized (
  select
    child.conversation_id, child.author_id as by_id, parent.author_id as to_id,
    child.author_kind = 'human' and edge.is_sure and agrees(child.body) as confirms,
    child.author_kind = 'human' and edge.is_sure and is_correction(child.body) as is_correction
  from said as child
  -- one index lookup for each row, whatever the planner estimates
  cross join lateral (
    select
      replies.parent_id,
      replies.method = 'explicit' or (replies.method = 'mention' and replies.confidence >= 0.9) as is_sure
    from replies
    where replies.org_id = %(org_id)s
      and replies.child_id = child.id
      and replies.parent_id is not null
      and replies.method <> 'thread'
    order by replies.method = 'explicit' desc
    limit 1
  ) as edge
  cross join lateral (
    select messages.author_id
    from messages
    where messages.org_id = %(org_id)s
      and messages.id = edge.parent_id
      and messages.sent_at <= child.sent_at
      and messages.author_id <> child.author_id
      and (
        select conversation_messages.conversation_id
        from conversation_messages
        where conversation_messages.org_id = messages.org_id and conversation_messages.message_id = messages.id
      ) = child.conversation_id
    limit 1
  ) as parent
  where child.conversation_id in (select conversation_id from agents)
),
met as materialized (
  select
    agents.conversation_id, agents.agent_id, said.author_id as participant_id, count(*) as messages,
    max(said.sent_at) as last_at
  from agents
  join said on said.conversation_id = agents.conversation_id and said.author_id <> agents.agent_id
  group by agents.conversation_id, agents.agent_id, said.author_id
),
counted as (
  select met.*, passed.answered, passed.answers, passed.confirmed, passed.corrected
  from met
  cross join lateral (
    select
      count(*) filter (where edges.by_id = met.agent_id and edges.to_id = met.participant_id) as answered,
      count(*) filter (where edges.by_id = met.participant_id and edges.to_id = met.agent_id) as answers,
      count(*) filter (where edges.to_id = met.participant_id and edges.confirms) as confirmed,
      count(*) filter (where edges.to_id = met.participant_id and edges.is_correction) as corrected
    from edges
    where edges.conversation_id = met.conversation_id
  ) as passed
),
gone as (
  delete from interactions
  where interactions.org_id = %(org_id)s
    and interactions.conversation_id = any (%(conversation_ids)s)
    and not exists (
      select 1
      from met
      where met.conversation_id = interactions.conversation_id
        and met.agent_id = interactions.agent_id
        and met.participant_id = interactions.participant_id
    )
)
insert into interactions (
  org_id, conversation_id, agent_id, participant_id, messages, answered, answers, confirmed, corrected, last_at
)
select
  %(org_id)s, conversation_id, agent_id, participant_id, messages, answered, answers, confirmed, corrected, last_at
from counted
order by conversation_id, agent_id, participant_id
on conflict (org_id, conversation_id, agent_id, participant_id) do update
set
  messages = excluded.messages, answered = excluded.answered, answers = excluded.answers,
  confirmed = excluded.confirmed, corrected = excluded.corrected, last_at = excluded.last_at
where (interactions.messages, interactions.answered, interactions.answers, interactions.confirmed, interactions.corrected, interactions.last_at)
  is distinct from (excluded.messages, excluded.answered, excluded.answers, excluded.confirmed, excluded.corrected, excluded.last_at);

-- name: interactions
-- The newest statement about any account of a person holds for all their accounts.
-- Uses indexes: interactions_of_agent, stated_trust_pkey
with met as (
  select
    interactions.participant_id,
    count(distinct interactions.conversation_id) as conversations,
    sum(interactions.messages)::bigint as messages,
    sum(interactions.answered)::bigint as answered,
    sum(interactions.answers)::bigint as answers,
    sum(interactions.confirmed)::bigint as confirmed,
    sum(interactions.corrected)::bigint as corrected,
    max(interactions.last_at) as last_met_at,
    sum(left_of.it) as conversations_now,
    sum(left_of.it * (interactions.answered + interactions.answers)) as exchanges_now,
    sum(left_of.it * interactions.confirmed) as confirmed_now,
    sum(left_of.it * interactions.corrected) as corrected_now
  from interactions
  cross join lateral (
    select power(
      0.5,
      greatest(extract(epoch from %(at)s::timestamptz - interactions.last_at), 0)::float8
        / extract(epoch from %(half_life)s::interval)::float8
    ) as it
  ) as left_of
  where interactions.org_id = %(org_id)s
    and interactions.agent_id = any (%(agent_ids)s)
    and (%(people)s::uuid[] is null or interactions.participant_id = any (%(people)s::uuid[]))
  group by interactions.participant_id
),
met_person as (
  select met.*, coalesce(merged.person_id, met.participant_id) as person_id
  from met
  left join participant_merges as merged on merged.org_id = %(org_id)s and merged.participant_id = met.participant_id
),
stated as (
  select distinct on (coalesce(merged.person_id, stated_trust.participant_id))
    coalesce(merged.person_id, stated_trust.participant_id) as person_id, stated_trust.participant_id,
    stated_trust.trust, stated_trust.stated_at, stated_trust.stated_by
  from stated_trust
  left join participant_merges as merged
    on merged.org_id = stated_trust.org_id and merged.participant_id = stated_trust.participant_id
  where stated_trust.org_id = %(org_id)s
    and stated_trust.agent_id = any (%(agent_ids)s)
    and (%(people)s::uuid[] is null or stated_trust.participant_id = any (%(people)s::uuid[]))
  order by coalesce(merged.person_id, stated_trust.participant_id), stated_trust.stated_at desc,
    stated_trust.participant_id, stated_trust.agent_id
)
select
  known.id, known.name, known.kind,
  coalesce(met.conversations, 0) as conversations,
  coalesce(met.messages, 0) as messages,
  coalesce(met.answered, 0) as answered,
  coalesce(met.answers, 0) as answers,
  coalesce(met.confirmed, 0) as confirmed,
  coalesce(met.corrected, 0) as corrected,
  met.last_met_at,
  coalesce(met.conversations_now, 0) as conversations_now,
  coalesce(met.exchanges_now, 0) as exchanges_now,
  coalesce(met.confirmed_now, 0) as confirmed_now,
  coalesce(met.corrected_now, 0) as corrected_now,
  stated.trust as stated_trust, stated.stated_at, stated.stated_by
from met_person as met
full join stated on stated.person_id = met.person_id
join known_participants as known
  on known.org_id = %(org_id)s and known.id = coalesce(met.participant_id, stated.participant_id);

-- name: state_trust
-- About no other account of the person, so that one statement is left.
with replaced as (
  delete from stated_trust
  where org_id = %(org_id)s
    and agent_id = any (%(agent_ids)s)
    and participant_id = any (%(participant_ids)s)
    and (agent_id, participant_id) <> (%(agent_id)s, %(participant_id)s)
)
insert into stated_trust (org_id, agent_id, participant_id, trust, stated_at, stated_by)
select participants.org_id, agent.id, participants.id, %(trust)s, %(at)s, %(by)s
from participants
join participants as agent on agent.org_id = participants.org_id and agent.id = %(agent_id)s
where participants.org_id = %(org_id)s and participants.id = %(participant_id)s
on conflict (org_id, agent_id, participant_id) do update
set trust = excluded.trust, stated_at = excluded.stated_at, stated_by = excluded.stated_by;

-- name: withdraw_trust
delete from stated_trust
where org_id = %(org_id)s and agent_id = any (%(agent_ids)s) and participant_id = any (%(participant_ids)s);

-- name: import_trust
-- What is stated already stays.
insert into stated_trust (org_id, agent_id, participant_id, trust, stated_at)
select agent.org_id, agent.id, imported.participant_id, imported.trust, imported.stated_at
from unnest(%(stated_1)s::uuid[], %(stated_2)s::uuid[], %(stated_3)s::float8[], %(stated_4)s::timestamptz[])
  as imported (agent_id, participant_id, trust, stated_at)
join participants as agent on agent.org_id = %(org_id)s and agent.id = imported.agent_id and agent.kind = 'agent'
where imported.agent_id <> imported.participant_id
  and not exists (
    select 1
    from stated_trust
    join participant_merges as mine on mine.org_id = stated_trust.org_id and mine.participant_id = stated_trust.participant_id
    join participant_merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
    where stated_trust.org_id = %(org_id)s
      and stated_trust.agent_id = imported.agent_id
      and other.participant_id = imported.participant_id
  )
order by imported.stated_at desc, imported.agent_id, imported.participant_id
on conflict (org_id, agent_id, participant_id) do nothing;

-- name: weighted_memories
select memory_id, weight, is_on_topic
from experiences(
  %(agent_ids)s,
  row(
    %(kinds)s::text[], %(tags)s::text[], %(task_id)s::text, %(people)s::uuid[], %(topic)s::text, %(is_of_task)s::boolean,
    %(is_newest_first)s::boolean, %(since)s::timestamptz, %(at)s::timestamptz
  )::experience_filter,
  %(limit)s
);

-- name: memory_state
select
  (
    select count(*)
    from memories
    where memories.org_id = %(org_id)s
      and memories.id = any (%(memory_ids)s)
      and memories.status = 'active'
      and not exists (
        select 1
        from memory_sources
        join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
        where memory_sources.org_id = memories.org_id
          and memory_sources.memory_id = memories.id
          and messages.edited_at > memories.recorded_at
      )
  ) = cardinality(%(memory_ids)s::uuid[]) as all_stand,
  experience_state(%(agent_ids)s) as mark;

-- name: message_scene
select
  viewer_is_agent() as is_agent,
  own_ids() as own_ids,
  coalesce((select label from conversations where org_id = %(org_id)s and id = inside.id), '') as topic,
  array(
    select distinct said.author_id
    from messages as said
    where said.org_id = %(org_id)s
      and (said.id = %(message_id)s or said.id in (select one.id from messages_in(inside.id) as one (id)))
      and said.erased_at is null
      and said.author_kind in ('human', 'agent')
    order by said.author_id
    limit %(limit)s
  ) as people
from conversation_of(%(message_id)s) as inside (id);

-- name: enqueue_reply
insert into work_queue (org_id, queue, subject_id, trigger_id)
values (%(org_id)s, 'interactions', %(reply_id)s, %(trigger_id)s)
on conflict (org_id, queue, subject_id) do nothing;

-- name: agent_replies
select
  reply.id as reply_id, reply.room_id, reply.author_id as agent_id, reply.author_name as agent_name, reply.body as reply,
  reply.sent_at, greatest(reply.edited_at, said.edited_at) as edited_at, said.id as trigger_id, said.author_id as other_id, said.author_name as other_name,
  said.author_kind as other_kind, said.body as trigger,
  exists (
    select 1
    from interactions
    where interactions.org_id = reply.org_id
      and interactions.agent_id = reply.author_id
      and interactions.participant_id = said.author_id
      and interactions.last_at < said.sent_at
  ) as has_met,
  coalesce(said.mentions, '[]') ?| array(
    select platform_accounts.account_id
    from platform_accounts
    where platform_accounts.org_id = reply.org_id and platform_accounts.participant_id = reply.author_id
  )
  or exists (
    select 1
    from answers
    join messages as asked on asked.org_id = answers.org_id and asked.id = answers.parent_id
    where answers.org_id = said.org_id and answers.child_id = said.id and asked.author_id = reply.author_id
  ) as is_addressed,
  coalesce(
    (
      select conversations.sensitivity
      from conversation_messages
      join conversations
        on conversations.org_id = conversation_messages.org_id and conversations.id = conversation_messages.conversation_id
      where conversation_messages.org_id = said.org_id
        and conversation_messages.message_id in (said.id, reply.id)
        and conversations.sensitivity = 'sensitive'
      limit 1
    ),
    'normal'
  ) as sensitivity
from work_queue
join messages as reply on reply.org_id = work_queue.org_id and reply.id = work_queue.subject_id
join messages as said on said.org_id = work_queue.org_id and said.id = work_queue.trigger_id
where work_queue.org_id = %(org_id)s
  and work_queue.queue = 'interactions'
  and work_queue.subject_id = any (%(reply_ids)s)
  and reply.redacted_at is null
  and said.redacted_at is null
  and reply.kind in ('message', 'whisper')
  and said.kind in ('message', 'whisper')
  -- this also holds if the earlier memory is no longer active
  and not exists (
    select 1
    from memory_sources
    join memories on memories.org_id = memory_sources.org_id and memories.id = memory_sources.memory_id
    where memory_sources.org_id = reply.org_id
      and memory_sources.message_id = reply.id
      and memories.kind = 'interaction'
      and memories.asserted_by = reply.author_id
  );

-- name: nearby_messages
-- Uses index: messages_in_order
select
  said.id, said.author_id, said.author_name, said.author_kind, said.sent_at, said.body, answered.id as answers,
  array(
    select platform_accounts.participant_id
    from platform_accounts
    where platform_accounts.org_id = said.org_id
      and platform_accounts.platform = rooms.platform
      and platform_accounts.account_id in (select jsonb_array_elements_text(coalesce(said.mentions, '[]')))
    union
    select answered.author_id where answered.id is not null
    union
    select message_audience.participant_id
    from message_audience
    where message_audience.org_id = said.org_id and message_audience.message_id = said.id and said.kind = 'whisper'
    union
    select memberships.participant_id
    from memberships
    where memberships.org_id = said.org_id
      and memberships.room_id = said.room_id
      and memberships.left_at is null
      and rooms.kind = 'dm'
    order by 1
  ) as calls
from rooms
cross join lateral (
  (
    select *
    from messages
    where messages.org_id = rooms.org_id
      and messages.room_id = rooms.id
      and (messages.sent_at, messages.sequence, messages.id) <= (%(sent_at)s, %(sequence)s, %(id)s)
      and messages.kind in ('message', 'whisper')
      and messages.author_kind in ('human', 'agent')
      and messages.redacted_at is null
    order by messages.sent_at desc, messages.sequence desc, messages.id desc
    limit %(before)s
  )
  union all
  (
    select *
    from messages
    where messages.org_id = rooms.org_id
      and messages.room_id = rooms.id
      and (messages.sent_at, messages.sequence, messages.id) > (%(sent_at)s, %(sequence)s, %(id)s)
      and messages.kind in ('message', 'whisper')
      and messages.author_kind in ('human', 'agent')
      and messages.redacted_at is null
    order by messages.sent_at, messages.sequence, messages.id
    limit %(after)s
  )
) as said
left join lateral (
  select parent.id, parent.author_id
  from replies
  join messages as parent on parent.org_id = replies.org_id and parent.id = replies.parent_id
  where replies.org_id = said.org_id and replies.child_id = said.id and replies.method = 'explicit'
  limit 1
) as answered on true
where rooms.org_id = %(org_id)s
  and rooms.id = %(room_id)s
order by said.sent_at desc, said.sequence desc, said.id desc;

-- name: reader_accounts
select viewer_is_agent() as is_agent, own_ids() as own_ids;

-- name: participant_names
select known.id, known.name
from known_participants as known
where known.org_id = %(org_id)s
  and known.kind in ('human', 'agent')
  and (
    known.id = any (own_ids())
    or known.id in (
      select memberships.participant_id
      from memberships
      where memberships.org_id = %(org_id)s and memberships.room_id = %(room_id)s and memberships.left_at is null
    )
  )
order by known.id = any (own_ids()) desc, known.id
limit %(limit)s;
