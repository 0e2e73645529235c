-- Drawing from conversations what is stated in them: which are to be gone through, what is said in them and who may be
-- spoken of, and how far that has come.

-- name: undrawn -> PendingConversation
-- The newest conversations that are over and were not gone through by rules since they last changed. Where its room
-- is still to be gone through, a message may belong elsewhere, or be sensitive.
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

-- name: asked_for -> PendingConversation
-- These conversations, as they are.
select id, room_id, sensitivity, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s)
order by id;

-- name: conversations_in -> ConversationRef
-- The conversations of a room, or of every room.
select id
from conversations
where org_id = %(org_id)s and (%(room_id)s::uuid is null or room_id = %(room_id)s)
order by last_at desc, id;

-- name: members -> MessageRef
-- The messages of these conversations, whatever is left of them.
-- Uses index: placements_in
select message_id as id
from placements
where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: said -> MessageText
-- What was said in these conversations and is still there, in order. What spoken wishes cover is in there for rules,
-- whose finds they keep back as well, and not for what is shown to a language model. Each table is asked message by
-- message, through an index, whatever the planner believes about its size.
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
  and placements.conversation_id = any (%(conversation_ids)s)
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

-- name: people -> RoomParticipant
-- Who takes part in these rooms, by every name known of them.
select
  members.room_id, participants.id, participants.name, participants.kind,
  array(
    select participants.first_name
    union
    select called.name
    from identities
    cross join lateral (values (identities.persona), (identities.account_id)) as called (name)
    where identities.org_id = participants.org_id
      and identities.participant_id = participants.id
      and called.name ~ '[[:alpha:]]'
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

-- name: hold -> LockedConversation
-- Keep conversations as they are until the transaction ends, and tell how they are: whoever changes one waits, or is
-- seen from here on.
select id
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s)
order by id
for update;

-- name: states -> ConversationState
-- How conversations are that are held. A statement of its own: what came before the rows were held is seen.
select id, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: note_drawn
-- Rules have gone through these conversations as they are.
update conversations
set drawn_state = noted.state, draw_error = null
from unnest(%(id)s::uuid[], %(state)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: note_read
-- A language model has gone through these conversations as they are.
update conversations
set read_state = noted.state
from unnest(%(id)s::uuid[], %(state)s::text[]) as noted (id, state)
where conversations.org_id = %(org_id)s and conversations.id = noted.id;

-- name: set_aside
-- Leave a conversation that broke whoever went through it until it changes, or until somebody wants it tried again.
update conversations
set draw_error = %(error)s, drawn_state = null
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: retry
-- Let conversations be tried again that were set aside.
-- Uses index: conversations_set_aside
update conversations set draw_error = null where org_id = %(org_id)s and draw_error is not null;

-- name: note_changes
-- Let conversations be gone through again that are not as they were when that was done.
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

-- name: hush -> SensitivityChange
-- Let what rests on sensitive conversations be sensitive at once, whoever put it how.
-- Uses indexes: placements_in, memory_sources_of_message
update memories
set sensitivity = 'sensitive', is_hushed = true
where memories.org_id = %(org_id)s
  and memories.sensitivity = 'normal'
  and memories.id in (
    select resting.memory_id
    from conversations
    join placements on placements.org_id = conversations.org_id and placements.conversation_id = conversations.id
    join memory_sources as resting
      on resting.org_id = placements.org_id and resting.message_id = placements.message_id
    where conversations.org_id = %(org_id)s
      and conversations.id = any (%(conversation_ids)s)
      and conversations.sensitivity = 'sensitive'
  )
returning memories.id;

-- name: unhush -> SensitivityChange
-- Let what was sensitive only because of these conversations be so no more, unless it rests on another one that is.
-- Uses indexes: placements_in, memory_sources_of_message
update memories
set sensitivity = 'normal', is_hushed = false
where memories.org_id = %(org_id)s
  and memories.is_hushed
  and memories.id in (
    select resting.memory_id
    from placements
    join memory_sources as resting
      on resting.org_id = placements.org_id and resting.message_id = placements.message_id
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
returning memories.id;

-- name: draw_anew
-- Let the conversations that these messages are in be gone through again, and forget how they were.
update conversations
set drawn_state = null, read_state = null, draw_error = null
where org_id = %(org_id)s
  and id in (
    select conversation_id from placements where org_id = %(org_id)s and message_id = any (%(message_ids)s)
  );

-- name: draw_anew_resting
-- Let the conversations be gone through again that these memories rest on, and forget how they were.
update conversations
set drawn_state = null, read_state = null, draw_error = null
where org_id = %(org_id)s
  and id in (
    select placements.conversation_id
    from memory_sources
    join placements on placements.org_id = memory_sources.org_id and placements.message_id = memory_sources.message_id
    where memory_sources.org_id = %(org_id)s and memory_sources.memory_id = any (%(memory_ids)s)
  );

-- name: coverage -> ExtractionProgress
-- How far rules have come in each room: messages of conversations that were gone through, conversations that are over
-- and wait, and since when, and those that were set aside.
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
