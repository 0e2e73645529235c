-- Agents: whom they met, what they remember, which of their answers are to be remembered.

-- name: meet
-- Write down anew who met which agent in these conversations, and what passed between them. What somebody says of a
-- message counts by the one reply that counts; the root of a thread is nobody's question. Agreement and correction are
-- laid to somebody's account only where the platform says whom they answer, or they name them and were surely found.
-- Uses indexes: placements_in, replies_from
with said as materialized (
  select placements.conversation_id, messages.id, messages.author_id, messages.author_kind, messages.sent_at, messages.body
  from placements
  cross join lateral (
    select id, author_id, author_kind, sent_at, body
    from messages
    where messages.org_id = placements.org_id and messages.id = placements.message_id and messages.erased_at is null
    limit 1
  ) as messages
  where placements.org_id = %(org_id)s
    and placements.conversation_id = any (%(conversation_ids)s)
    and messages.author_kind in ('human', 'agent')
    -- single values: asked once, not for each message
    and (select true from participants where participants.org_id = %(org_id)s and participants.kind = 'agent' limit 1)
),
agents as materialized (
  select distinct conversation_id, author_id as agent_id from said where author_kind = 'agent'
),
edges as materialized (
  select
    child.conversation_id, child.author_id as by_id, parent.author_id as to_id,
    child.author_kind = 'human' and edge.is_sure and agrees(child.body) as confirms,
    child.author_kind = 'human' and edge.is_sure and corrects(child.body) as corrects
  from said as child
  -- each looked up by itself through an index, whatever the planner believes about the size of the tables
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
        select placements.conversation_id
        from placements
        where placements.org_id = messages.org_id and placements.message_id = messages.id
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
      count(*) filter (where edges.to_id = met.participant_id and edges.corrects) as corrected
    from edges
    where edges.conversation_id = met.conversation_id
  ) as passed
),
gone as (
  delete from encounters
  where encounters.org_id = %(org_id)s
    and encounters.conversation_id = any (%(conversation_ids)s)
    and not exists (
      select 1
      from met
      where met.conversation_id = encounters.conversation_id
        and met.agent_id = encounters.agent_id
        and met.participant_id = encounters.participant_id
    )
)
insert into encounters (
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
where (encounters.messages, encounters.answered, encounters.answers, encounters.confirmed, encounters.corrected, encounters.last_at)
  is distinct from (excluded.messages, excluded.answered, excluded.answers, excluded.confirmed, excluded.corrected, excluded.last_at);

-- name: met -> InteractionStats
-- Whom an agent, by these accounts, has met, as far as the viewer may see it: all that passed between them, and how
-- much of it still weighs at a time.
-- Uses index: encounters_of_agent
select
  known.id, known.name, known.kind,
  count(distinct encounters.conversation_id) as conversations,
  sum(encounters.messages)::bigint as messages,
  sum(encounters.answered)::bigint as answered,
  sum(encounters.answers)::bigint as answers,
  sum(encounters.confirmed)::bigint as confirmed,
  sum(encounters.corrected)::bigint as corrected,
  max(encounters.last_at) as last_met_at,
  sum(left_of.it) as conversations_now,
  sum(left_of.it * (encounters.answered + encounters.answers)) as exchanges_now,
  sum(left_of.it * encounters.confirmed) as confirmed_now,
  sum(left_of.it * encounters.corrected) as corrected_now
from encounters
join known_participants as known on known.org_id = encounters.org_id and known.id = encounters.participant_id
cross join lateral (
  select power(
    0.5,
    greatest(extract(epoch from %(at)s::timestamptz - encounters.last_at), 0)::float8
      / extract(epoch from %(half_life)s::interval)::float8
  ) as it
) as left_of
where encounters.org_id = %(org_id)s
  and encounters.agent_id = any (%(agent_ids)s)
  and (%(participant_ids)s::uuid[] is null or encounters.participant_id = any (%(participant_ids)s::uuid[]))
group by known.id, known.name, known.kind;

-- name: experiences -> WeightedMemory
-- The memories of an agent that are looked for, as far as the viewer may see them.
select memory_id, weight, fits
from experiences(
  %(agent_ids)s,
  row(
    %(kinds)s::text[], %(tags)s::text[], %(task_id)s::text, %(people)s::uuid[], %(topic)s::text, %(is_of_task)s::boolean,
    %(is_newest_first)s::boolean, %(since)s::timestamptz, %(at)s::timestamptz
  )::experience_scope,
  %(wanted)s
);

-- name: known_still -> MemoryState
-- Whether some memories all stand, as they were and as far as the viewer may see them, and which others the agent has.
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
  experience_mark(%(agent_ids)s) as mark;

-- name: scene -> MessageScene
-- Who reads, and what a message's conversation is about and who takes part in it, as far as the viewer may follow it;
-- its author alone otherwise.
select
  viewer_is_agent() as is_agent,
  own_ids() as own_ids,
  coalesce((select label from conversations where org_id = %(org_id)s and id = inside.id), '') as topic,
  array(
    select distinct said.author_id
    from messages as said
    where said.org_id = %(org_id)s
      and (said.id = %(message_id)s or said.id in (select one.id from said_in(inside.id) as one (id)))
      and said.erased_at is null
      and said.author_kind in ('human', 'agent')
    order by said.author_id
    limit %(limit)s
  ) as people
from conversation_of(%(message_id)s) as inside (id);

-- name: note_answer
-- Ask for an answer to be remembered, if it is worth it, once the transaction commits.
insert into work (org_id, stage, subject_id, trigger_id)
values (%(org_id)s, 'interact', %(reply_id)s, %(trigger_id)s)
on conflict (org_id, stage, subject_id) do nothing;

-- name: exchanged -> AgentReply
-- What agents answered and to what, as far as both are still there.
select
  reply.id as reply_id, reply.room_id, reply.author_id as agent_id, reply.author_name as agent_name, reply.body as reply,
  reply.sent_at, greatest(reply.edited_at, said.edited_at) as edited_at, said.id as trigger_id, said.author_id as other_id, said.author_name as other_name,
  said.author_kind as other_kind, said.body as trigger,
  exists (
    select 1
    from encounters
    where encounters.org_id = reply.org_id
      and encounters.agent_id = reply.author_id
      and encounters.participant_id = said.author_id
      and encounters.last_at < said.sent_at
  ) as has_met,
  coalesce(said.mentions, '[]') ?| array(
    select identities.account_id
    from identities
    where identities.org_id = reply.org_id and identities.participant_id = reply.author_id
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
      from placements
      join conversations
        on conversations.org_id = placements.org_id and conversations.id = placements.conversation_id
      where placements.org_id = said.org_id
        and placements.message_id in (said.id, reply.id)
        and conversations.sensitivity = 'sensitive'
      limit 1
    ),
    'normal'
  ) as sensitivity
from work
join messages as reply on reply.org_id = work.org_id and reply.id = work.subject_id
join messages as said on said.org_id = work.org_id and said.id = work.trigger_id
where work.org_id = %(org_id)s
  and work.stage = 'interact'
  and work.subject_id = any (%(reply_ids)s)
  and reply.redacted_at is null
  and said.redacted_at is null
  and reply.kind in ('message', 'whisper')
  and said.kind in ('message', 'whisper')
  -- whatever became of what was remembered before
  and not exists (
    select 1
    from memory_sources
    join memories on memories.org_id = memory_sources.org_id and memories.id = memory_sources.memory_id
    where memory_sources.org_id = reply.org_id
      and memory_sources.message_id = reply.id
      and memories.kind = 'interaction'
      and memories.asserted_by = reply.author_id
  );

-- name: said_around -> NearbyMessage
-- What was said in a room before and after a message, that message among it, as far as the viewer may read it, and
-- whom each calls by what the platform says: those mentioned, the author of what it answers, those who hear a whisper
-- or are in a dm. Nothing that was found out about messages has a part in it.
-- Uses index: messages_in_order
select
  said.id, said.author_id, said.author_name, said.author_kind, said.body, answered.id as answers,
  array(
    select identities.participant_id
    from identities
    where identities.org_id = said.org_id
      and identities.platform = rooms.platform
      and identities.account_id in (select jsonb_array_elements_text(coalesce(said.mentions, '[]')))
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
      and (messages.sent_at, messages.native_order, messages.id) <= (%(sent_at)s, %(native_order)s, %(message_id)s)
      and messages.kind in ('message', 'whisper')
      and messages.author_kind in ('human', 'agent')
      and messages.redacted_at is null
    order by messages.sent_at desc, messages.native_order desc, messages.id desc
    limit %(before)s
  )
  union all
  (
    select *
    from messages
    where messages.org_id = rooms.org_id
      and messages.room_id = rooms.id
      and (messages.sent_at, messages.native_order, messages.id) > (%(sent_at)s, %(native_order)s, %(message_id)s)
      and messages.kind in ('message', 'whisper')
      and messages.author_kind in ('human', 'agent')
      and messages.redacted_at is null
    order by messages.sent_at, messages.native_order, messages.id
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
order by said.sent_at desc, said.native_order desc, said.id desc;

-- name: reader -> ReaderAccounts
-- Whether the viewer is an agent, and every account of the viewer.
select viewer_is_agent() as is_agent, own_ids() as own_ids;

-- name: names_in -> RoomParticipant
-- Who is in a room and what the viewer may call them, the viewer's own accounts among them.
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
