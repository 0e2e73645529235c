-- name: pending
-- While its room is still to be disentangled, a conversation may lose messages or become sensitive.
-- Uses index: conversations_undrawn
select id, room_id, sensitivity, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s
  and drawn_state is null
  and draw_error is null
  and is_over(conversations, %(now)s)
  and exists (
    select 1
    from placements
    where placements.org_id = conversations.org_id and placements.conversation_id = conversations.id
  )
  and not exists (
    select 1
    from work
    where work.org_id = conversations.org_id and work.stage = 'untangle' and work.subject_id = conversations.room_id
  )
order by last_at desc, id
limit %(limit)s;

-- name: requested
select id, room_id, sensitivity, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(ids)s)
order by id;

-- name: conversations_in
select id
from conversations
where org_id = %(org_id)s and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by last_at desc, id;

-- name: message_ids
-- Uses index: placements_in
select message_id
from placements
where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: message_texts
-- An index lookup per message, whatever the planner estimates.
-- Uses index: placements_in
select
  placements.conversation_id, said.id as message_id, said.author_id, said.author_name, said.author_kind, said.kind,
  said.body, said.sent_at, stated.parent_id as answers
from placements
cross join lateral (
  select messages.*
  from messages
  where messages.org_id = placements.org_id and messages.id = placements.message_id
  limit 1
) as said
left join lateral (
  select answers.parent_id
  from answers
  where answers.org_id = said.org_id and answers.child_id = said.id
  offset 0
) as stated on true
where placements.org_id = %(org_id)s
  and placements.conversation_id = any (%(ids)s)
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and said.body ~ '\S'
  and not (
    %(shown)s
    and exists (
      select 1 from withheld where withheld.org_id = said.org_id and withheld.message_id = said.id
    )
  )
order by placements.conversation_id, said.sent_at, said.native_order, said.id;

-- name: room_participants
select
  members.room_id, participants.id, participants.name, participants.kind,
  array(
    select participants.first_name where participants.first_name <> participants.name
    union
    select called.name
    from identities
    cross join lateral (values (identities.persona), (identities.account_id)) as called (name)
    where identities.org_id = participants.org_id
      and identities.participant_id = participants.id
      and called.name ~ '[[:alpha:]]'
      and called.name <> participants.name
    order by 1
  ) as names
from (
  select room_id, participant_id from activity where org_id = %(org_id)s and room_id = any (%(room_ids)s)
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
-- A statement of its own: it sees what came before the rows were locked.
select id, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: record_extracted
update conversations
set drawn_state = noted.state, draw_error = null
from unnest(%(states_1)s::uuid[], %(states_2)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: record_read_by_llm
update conversations
set read_state = noted.state
from unnest(%(states_1)s::uuid[], %(states_2)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: dead_letter
update conversations
set draw_error = %(error)s, drawn_state = null
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: retry
-- Uses index: conversations_set_aside
update conversations set draw_error = null where org_id = %(org_id)s and draw_error is not null;

-- name: mark_changed
update conversations as held
set
  drawn_state = case when held.drawn_state = now.state then held.drawn_state end,
  read_state = case when held.read_state = now.state then held.read_state end,
  draw_error = null
from (
  select id, drawing_state(conversations) as state
  from conversations
  where org_id = %(org_id)s
    and id = any (%(conversation_ids)s)
    and (drawn_state is not null or read_state is not null or draw_error is not null)
) as now
where held.org_id = %(org_id)s
  and held.id = now.id
  and (held.drawn_state <> now.state or held.read_state <> now.state or held.draw_error is not null);

-- name: update_sensitivity
-- Uses indexes: placements_in, memory_sources_of_message
with hushed as (
  update memories
  set sensitivity = 'sensitive', is_hushed = true
  where memories.org_id = %(org_id)s
    and memories.sensitivity = 'normal'
    and memories.id in (
      select source.memory_id
      from conversations
      join placements on placements.org_id = conversations.org_id and placements.conversation_id = conversations.id
      join memory_sources as source on source.org_id = placements.org_id and source.message_id = placements.message_id
      where conversations.org_id = %(org_id)s
        and conversations.id = any (%(conversation_ids)s)
        and conversations.sensitivity = 'sensitive'
    )
  returning memories.id
),
unhushed as (
  update memories
  set sensitivity = 'normal', is_hushed = false
  where memories.org_id = %(org_id)s
    and memories.is_hushed
    and memories.id in (
      select source.memory_id
      from placements
      join memory_sources as source on source.org_id = placements.org_id and source.message_id = placements.message_id
      where placements.org_id = %(org_id)s and placements.conversation_id = any (%(conversation_ids)s)
    )
    and not exists (
      select 1
      from memory_sources as source
      join placements on placements.org_id = source.org_id and placements.message_id = source.message_id
      join conversations
        on conversations.org_id = placements.org_id and conversations.id = placements.conversation_id
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
set drawn_state = null, read_state = null, draw_error = null
where org_id = %(org_id)s
  and id in (
    select conversation_id from placements where org_id = %(org_id)s and message_id = any (%(message_ids)s)
  );

-- name: reextract_sources
update conversations
set drawn_state = null, read_state = null, draw_error = null
where org_id = %(org_id)s
  and id in (
    select placements.conversation_id
    from memory_sources
    join placements on placements.org_id = memory_sources.org_id and placements.message_id = memory_sources.message_id
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = any (%(memory_ids)s)
  );

-- name: coverage
select
  conversations.room_id,
  coalesce(sum(held.count) filter (where conversations.drawn_state is not null), 0)::bigint as done,
  count(*) filter (
    where conversations.drawn_state is null and conversations.draw_error is null and is_over(conversations, %(now)s)
  ) as waiting,
  count(*) filter (where conversations.draw_error is not null) as set_aside,
  min(least(conversations.last_at + conversations.quiet_after, conversations.closed_at)) filter (
    where conversations.drawn_state is null and conversations.draw_error is null and is_over(conversations, %(now)s)
  ) as oldest_at
from (
  select conversation_id, count(*) as count from placements where org_id = %(org_id)s group by conversation_id
) as held
join conversations on conversations.org_id = %(org_id)s and conversations.id = held.conversation_id
group by conversations.room_id;
