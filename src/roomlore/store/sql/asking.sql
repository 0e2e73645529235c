-- How often a language model is asked for an org, and when it may be asked again: for each purpose by itself.

-- name: rests -> Rests
-- Whether no call may be made now.
select exists (
  select 1
  from asking
  where org_id = %(org_id)s
    and purpose = %(purpose)s
    and (due_at > %(now)s or (day = %(day)s and calls >= %(most)s))
) as rests;

-- name: reserve -> Reserved
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

-- name: asked -> Asked
-- How a language model answered, and how often it was asked today.
select
  coalesce((select calls from asking where org_id = %(org_id)s and purpose = %(purpose)s and day = %(day)s), 0)
    as calls_today,
  coalesce((select failures from asking where org_id = %(org_id)s and purpose = %(purpose)s), 0) as failures,
  (select due_at from asking where org_id = %(org_id)s and purpose = %(purpose)s and failures > 0) as next_try_at,
  (select error from asking where org_id = %(org_id)s and purpose = %(purpose)s) as error;
