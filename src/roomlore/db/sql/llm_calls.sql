-- name: next_conversation
-- While work on its room waits, a message may move to another conversation or become sensitive.
-- Uses index: conversations_unread
select id, room_id, sensitivity, current_extraction_state(conversations) as state
from conversations
where org_id = %(org_id)s
  and llm_extraction_state is null
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s)
  and not id = any (%(passed_over)s)
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
  and not exists (
    select 1
    from llm_room_quota
    where llm_room_quota.org_id = conversations.org_id
      and llm_room_quota.room_id = conversations.room_id
      and llm_room_quota.day = (%(now)s::timestamptz at time zone 'utc')::date
      and llm_room_quota.calls >= %(most_of_room)s
  )
order by last_at desc, id
limit 1;

-- name: requested
select id, room_id, sensitivity, current_extraction_state(conversations) as state
from conversations
where org_id = %(org_id)s and id = any (%(ids)s) and sensitivity = 'normal'
order by last_at desc, id;

-- name: count_room_call
insert into llm_room_quota as counted (org_id, room_id, day, calls)
select %(org_id)s, %(room_id)s, (%(now)s::timestamptz at time zone 'utc')::date, 1 where %(most)s > 0
on conflict (org_id, room_id, day) do update
set calls = counted.calls + 1
where counted.calls < %(most)s
returning counted.calls;

-- name: earlier_answer
-- An answer may repeat everything that its prompt showed. So an answer for another conversation is used only if its
-- prompt showed messages of that conversation or the given messages. No answer is used if a privacy request now covers
-- one of its messages.
-- Uses index: llm_calls_same
select id, conversation_id, answer, sent_tokens, answer_tokens
from llm_calls
where org_id = %(org_id)s
  and digest = %(digest)s
  and answer is not null
  and not exists (
    select 1
    from llm_call_messages as shown
    where shown.org_id = llm_calls.org_id
      and shown.call_id = llm_calls.id
      and (
        exists (select 1 from restricted_messages where restricted_messages.org_id = shown.org_id and restricted_messages.message_id = shown.message_id)
        or (
          llm_calls.conversation_id <> %(conversation_id)s
          and not shown.message_id = any (%(message_ids)s)
          and not exists (
            select 1
            from conversation_messages
            where conversation_messages.org_id = shown.org_id
              and conversation_messages.message_id = shown.message_id
              and conversation_messages.conversation_id = llm_calls.conversation_id
          )
        )
      )
  )
order by conversation_id = %(conversation_id)s desc, id desc
limit 1;

-- name: add_call
insert into llm_calls (
  org_id, id, room_id, conversation_id, language_model, digest, instructions, prompt, asked_at, answered_at, answer,
  is_repeated
)
values (
  %(org_id)s, %(id)s, %(room_id)s, %(conversation_id)s, %(language_model)s, %(digest)s, %(instructions)s, %(prompt)s,
  %(asked_at)s, %(answered_at)s, %(answer)s, %(answer)s::text is not null
);

-- name: add_messages
insert into llm_call_messages (org_id, message_id, call_id)
select distinct %(org_id)s::uuid, message_id, %(call_id)s::uuid
from unnest(%(message_ids)s::uuid[]) as shown (message_id);

-- name: record_answer
update llm_calls
set
  answered_at = %(answered_at)s, answer = %(answer)s, error = %(error)s, sent_tokens = %(tokens_1)s,
  answer_tokens = %(tokens_2)s
where org_id = %(org_id)s and id = %(call_id)s;

-- name: record_results
update llm_calls
set results = result.results::jsonb
from unnest(%(results_1)s::uuid[], %(results_2)s::text[]) as result (id, results)
where llm_calls.org_id = %(org_id)s and llm_calls.id = result.id;

-- name: outdated_calls
-- Uses index: llm_calls_of_conversation
select id
from llm_calls
where org_id = %(org_id)s and conversation_id = %(conversation_id)s and not id = any (%(kept)s);

-- name: calls_with_messages
select distinct call_id
from llm_call_messages
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: calls_containing
select llm_calls.id
from llm_calls
where llm_calls.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as erased (string)
    where strpos(lower(concat_ws(E'\n', llm_calls.prompt, llm_calls.answer, llm_calls.results::text)), lower(erased.string)) > 0
  );

-- name: drop_messages
delete from llm_call_messages where org_id = %(org_id)s and call_id = any (%(ids)s);

-- name: drop_calls
delete from llm_calls where org_id = %(org_id)s and id = any (%(ids)s);

-- name: of_conversation
-- Uses index: llm_calls_of_conversation
select
  id, room_id, conversation_id, language_model, instructions, prompt, asked_at, answered_at, answer, error,
  is_repeated, sent_tokens, answer_tokens, coalesce(results, '[]') as results
from llm_calls
where org_id = %(org_id)s and conversation_id = %(conversation_id)s
order by id;

-- name: newest
select
  id, room_id, conversation_id, language_model, instructions, prompt, asked_at, answered_at, answer, error,
  is_repeated, sent_tokens, answer_tokens, coalesce(results, '[]') as results
from llm_calls
where org_id = %(org_id)s
order by id desc
limit %(limit)s;

-- name: waiting_conversations
-- Uses index: conversations_unread
select count(*) as waiting
from conversations
where org_id = %(org_id)s
  and llm_extraction_state is null
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s);
