-- name: is_blocked
select exists (
  select 1
  from llm_quota
  where org_id = %(org_id)s
    and purpose = %(purpose)s
    and (due_at > %(now)s or (day = (%(now)s::timestamptz at time zone 'utc')::date and calls >= %(daily_limit)s))
);

-- name: reserve
insert into llm_quota as counted (org_id, purpose, day, calls, due_at)
select %(org_id)s, %(purpose)s, (%(now)s::timestamptz at time zone 'utc')::date, 1, %(until)s where %(daily_limit)s > 0
on conflict (org_id, purpose) do update
set
  day = excluded.day,
  calls = case when counted.day = excluded.day then counted.calls + 1 else 1 end,
  due_at = excluded.due_at
where counted.due_at <= %(now)s and (counted.day <> excluded.day or counted.calls < %(daily_limit)s)
returning counted.failures;

-- name: release
update llm_quota
set calls = calls - 1, due_at = %(now)s
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: record_answer
update llm_quota
set
  due_at = %(now)s,
  failures = case when %(is_answered)s then 0 else failures end,
  error = case when %(is_answered)s then null else error end
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: record_failure
update llm_quota
set due_at = %(due_at)s, failures = failures + 1, error = %(error)s
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: call_status
select
  coalesce(max(calls) filter (where day = (%(now)s::timestamptz at time zone 'utc')::date), 0) as calls_today,
  coalesce(max(failures), 0) as failures,
  max(due_at) filter (where failures > 0) as next_try_at,
  max(error) as error
from llm_quota
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: sensitive_messages
-- A message without a conversation, or in a room that waits to be disentangled, may become sensitive.
select chosen.id
from unnest(%(ids)s::uuid[]) as chosen (id)
left join messages on messages.org_id = %(org_id)s and messages.id = chosen.id
left join conversation_messages on conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = chosen.id
left join conversations
  on conversations.org_id = %(org_id)s and conversations.id = conversation_messages.conversation_id
where conversations.sensitivity is distinct from 'normal'
  or exists (
    select 1
    from work_queue
    where work_queue.org_id = %(org_id)s and work_queue.queue = 'disentangle' and work_queue.subject_id = messages.room_id
  );

-- name: count_answer_call
-- Titles and answers have one count, but neither waits for the other. So `due_at` is unchanged.
insert into llm_quota as counted (org_id, purpose, day, calls, due_at)
select %(org_id)s, 'titles', (%(now)s::timestamptz at time zone 'utc')::date, 1, %(now)s where %(daily_limit)s > 0
on conflict (org_id, purpose) do update
set day = excluded.day, calls = case when counted.day = excluded.day then counted.calls + 1 else 1 end
where (counted.failures = 0 or counted.due_at <= %(now)s)
  and (counted.day <> excluded.day or counted.calls < %(daily_limit)s)
returning counted.failures;

-- name: reset_answer_failures
update llm_quota
set failures = 0, error = null
where org_id = %(org_id)s and purpose = 'titles' and failures > 0;

-- name: record_answer_failure
update llm_quota
set failures = failures + 1, error = %(error)s, due_at = greatest(due_at, %(due_at)s)
where org_id = %(org_id)s and purpose = 'titles';
