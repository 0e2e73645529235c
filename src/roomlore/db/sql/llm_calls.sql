-- What a language model is shown of conversations to find what is stated in them, and what it says. For operators.

-- name: unread -> PendingConversation
-- The newest conversation that is over, that no language model went through since it last changed, and whose room has
-- calls left today. Where its room is still to be gone through, a message may belong elsewhere, or be sensitive.
-- Uses index: conversations_unread
select id, room_id, sensitivity, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s
  and read_state is null
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s)
  and not id = any (%(passed_over)s)
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
  and not exists (
    select 1
    from asked_of_rooms
    where asked_of_rooms.org_id = conversations.org_id
      and asked_of_rooms.room_id = conversations.room_id
      and asked_of_rooms.day = %(day)s
      and asked_of_rooms.calls >= %(most)s
  )
order by last_at desc, id
limit 1;

-- name: asked_for -> PendingConversation
-- Those of these conversations that may be shown.
select id, room_id, sensitivity, drawing_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s) and sensitivity = 'normal'
order by last_at desc, id;

-- name: count_of_room -> CallCount
-- Count a call of a room, if its day has one left.
insert into asked_of_rooms as held (org_id, room_id, day, calls)
values (%(org_id)s, %(room_id)s, %(day)s, 1)
on conflict (org_id, room_id, day) do update
set calls = held.calls + 1
where held.calls < %(most)s
returning held.calls;

-- name: earlier -> EarlierAnswer
-- What was answered to the very same before: of the same conversation first. Not where a wish covers what was shown by
-- now, nor where another conversation was shown with what is remembered from messages that are not among these.
-- Uses index: readings_same
select id, conversation_id, answer, sent_tokens, answer_tokens
from readings
where org_id = %(org_id)s
  and digest = %(digest)s
  and answer is not null
  and not exists (
    select 1
    from reading_messages as shown
    where shown.org_id = readings.org_id
      and shown.reading_id = readings.id
      and (
        exists (select 1 from withheld where withheld.org_id = shown.org_id and withheld.message_id = shown.message_id)
        or (
          readings.conversation_id <> %(conversation_id)s
          and not shown.message_id = any (%(message_ids)s)
          and not exists (
            select 1
            from placements
            where placements.org_id = shown.org_id
              and placements.message_id = shown.message_id
              and placements.conversation_id = readings.conversation_id
          )
        )
      )
  )
order by conversation_id = %(conversation_id)s desc, id desc
limit 1;

-- name: add
-- Keep what a language model is shown, or was shown before, with its answer.
insert into readings (
  org_id, id, room_id, conversation_id, language_model, digest, instructions, material, asked_at, answered_at, answer,
  is_repeated
)
values (
  %(org_id)s, %(id)s, %(room_id)s, %(conversation_id)s, %(language_model)s, %(digest)s, %(instructions)s, %(material)s,
  %(asked_at)s, %(answered_at)s, %(answer)s, %(answer)s::text is not null
);

-- name: add_messages
-- Say which messages a reading shows.
insert into reading_messages (org_id, message_id, reading_id)
select distinct %(org_id)s::uuid, message_id, %(id)s::uuid
from unnest(%(message_ids)s::uuid[]) as shown (message_id);

-- name: note_answer
-- Keep what came back; of what is gone nothing is kept.
update readings
set
  answered_at = %(answered_at)s, answer = %(answer)s, error = %(error)s, sent_tokens = %(sent_tokens)s,
  answer_tokens = %(answer_tokens)s
where org_id = %(org_id)s and id = %(id)s;

-- name: note_verdicts
-- Keep what became of what was stated.
update readings
set verdicts = told.verdicts::jsonb
from unnest(%(id)s::uuid[], %(verdicts)s::text[]) as told (id, verdicts)
where readings.org_id = %(org_id)s and readings.id = told.id;

-- name: outdated -> LlmCallRef
-- Readings of a conversation that are not among these: it was shown otherwise then.
-- Uses index: readings_of_conversation
select id
from readings
where org_id = %(org_id)s and conversation_id = %(conversation_id)s and not id = any (%(kept_ids)s);

-- name: showing -> LlmCallRef
-- Readings that show one of these messages.
select distinct reading_id as id
from reading_messages
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: saying -> LlmCallRef
-- Readings in which one of these strings occurs, in any case.
select readings.id
from readings
where readings.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(concat_ws(E'\n', readings.material, readings.answer, readings.verdicts::text)), lower(wanted.string)) > 0
  );

-- name: drop_messages
-- Forget which messages readings show.
delete from reading_messages where org_id = %(org_id)s and reading_id = any (%(ids)s);

-- name: drop
-- Remove readings.
delete from readings where org_id = %(org_id)s and id = any (%(ids)s);

-- name: of_conversation -> LlmCall
-- The readings of a conversation, in order.
-- Uses index: readings_of_conversation
select
  id, room_id, conversation_id, language_model, instructions, material, asked_at, answered_at, answer, error,
  is_repeated, sent_tokens, answer_tokens, coalesce(verdicts, '[]') as verdicts
from readings
where org_id = %(org_id)s and conversation_id = %(conversation_id)s
order by id;

-- name: newest -> LlmCall
-- The newest readings, newest first.
select
  id, room_id, conversation_id, language_model, instructions, material, asked_at, answered_at, answer, error,
  is_repeated, sent_tokens, answer_tokens, coalesce(verdicts, '[]') as verdicts
from readings
where org_id = %(org_id)s
order by id desc
limit %(limit)s;

-- name: waiting -> WaitingCount
-- How many conversations wait to be shown to a language model.
-- Uses index: conversations_unread
select count(*) as waiting
from conversations
where org_id = %(org_id)s
  and read_state is null
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s);
