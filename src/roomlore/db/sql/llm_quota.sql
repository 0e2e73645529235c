-- How often a language model is asked for an org, and when it may be asked again: for each purpose by itself.

-- name: rests -> CallBlock
-- Whether no call may be made now.
select exists (
  select 1
  from asking
  where org_id = %(org_id)s
    and purpose = %(purpose)s
    and (due_at > %(now)s or (day = %(day)s and calls >= %(most)s))
) as rests;

-- name: reserve -> CallReservation
-- Count a call, if one may be made now; nobody else makes one until it is over, or the time for it is.
insert into asking as held (org_id, purpose, day, calls, due_at)
values (%(org_id)s, %(purpose)s, %(day)s, 1, %(until)s)
on conflict (org_id, purpose) do update
set
  day = excluded.day,
  calls = case when held.day = excluded.day then held.calls + 1 else 1 end,
  due_at = excluded.due_at
where held.due_at <= %(now)s and (held.day <> excluded.day or held.calls < %(most)s)
returning held.failures;

-- name: give_back
-- A call that was counted is not made: nothing is left to ask about.
update asking
set calls = calls - 1, due_at = %(now)s
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: note_answer
-- A call was answered, or given up before it was.
update asking
set
  due_at = %(now)s,
  failures = case when %(is_answered)s then 0 else failures end,
  error = case when %(is_answered)s then null else error end
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: note_failure
-- A call was not answered: say why, and when to try again.
update asking
set due_at = %(due_at)s, failures = failures + 1, error = %(error)s
where org_id = %(org_id)s and purpose = %(purpose)s;

-- name: asked -> CallStatus
-- How a language model answered, and how often it was asked today.
select
  coalesce((select calls from asking where org_id = %(org_id)s and purpose = %(purpose)s and day = %(day)s), 0)
    as calls_today,
  coalesce((select failures from asking where org_id = %(org_id)s and purpose = %(purpose)s), 0) as failures,
  (select due_at from asking where org_id = %(org_id)s and purpose = %(purpose)s and failures > 0) as next_try_at,
  (select error from asking where org_id = %(org_id)s and purpose = %(purpose)s) as error;

-- What may be told to a language model that answers a question, and how often it is asked.

-- name: kept_back -> SensitiveMessage
-- Those of these messages that are in a sensitive conversation or may yet be: in none so far, or in a room that is
-- still to be gone through.
select asked.id
from unnest(%(message_ids)s::uuid[]) as asked (id)
left join messages on messages.org_id = %(org_id)s and messages.id = asked.id
left join placements on placements.org_id = %(org_id)s and placements.message_id = asked.id
left join conversations
  on conversations.org_id = %(org_id)s and conversations.id = placements.conversation_id
where conversations.sensitivity is distinct from 'normal'
  or exists (
    select 1
    from work
    where work.org_id = %(org_id)s and work.stage = 'untangle' and work.subject_id = messages.room_id
  );

-- name: count_call -> CallCount
-- Count a call, if the day has one left and the last ones were answered or it is time to try again. Whoever names
-- conversations waits for nobody who asks, nor the other way round.
insert into asking as held (org_id, purpose, day, calls, due_at)
values (%(org_id)s, 'titles', %(day)s, 1, %(now)s)
on conflict (org_id, purpose) do update
set day = excluded.day, calls = case when held.day = excluded.day then held.calls + 1 else 1 end
where (held.failures = 0 or held.due_at <= %(now)s)
  and (held.day <> excluded.day or held.calls < %(most)s)
returning held.failures;

-- name: note_answered
-- A call was answered: those before it that were not do not count any more.
update asking
set failures = 0, error = null
where org_id = %(org_id)s and purpose = 'titles' and failures > 0;

-- name: note_unanswered
-- A call was not answered: say why, and when to try again.
update asking
set failures = failures + 1, error = %(error)s, due_at = greatest(due_at, %(due_at)s)
where org_id = %(org_id)s and purpose = 'titles';
