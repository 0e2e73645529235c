-- Copies that are walked as a graph: of people, rooms, conversations and memories, beside messages.

alter table projections drop constraint projections_target_check;
alter table projections add constraint projections_target_check check (target in ('qdrant', 'neo4j'));
-- Up to which subject, in the order of their ids, was asked for what the copy is to hold that is being built.
alter table projections add column next_after uuid;

alter table work drop constraint work_stage_check;
alter table work
  add constraint work_stage_check check (stage in ('embed', 'untangle', 'interact', 'inject', 'qdrant', 'neo4j'));

-- Ask for subjects to be written to the copies of the org in some servers, once this transaction commits, and wake those who
-- do; returns how often. What is being written stays with whoever has taken it, and is done again afterwards: no subject
-- is written twice at once.
create function ask_for_copies_in(targets text[], subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work (org_id, stage, subject_id)
    select projections.org_id, projections.target, subject.id
    from projections
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where projections.org_id = current_org() and projections.target = any (targets)
    order by projections.target, subject.id
    on conflict (org_id, stage, subject_id) do update
    set
      version = work.version + 1,
      failures = 0,
      error = null,
      set_aside_at = null,
      -- leased, and not waiting to be tried again
      attempts = case when work.set_aside_at is null and work.due_at > now() then work.attempts else 0 end,
      due_at = case
        when work.set_aside_at is null and work.due_at > now() and work.attempts > 0 then work.due_at
        else now()
      end
    returning work.stage
  ),
  woken as (
    select asked.stage, count(*) as size, pg_notify('roomlore_work', asked.stage) from asked group by asked.stage
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Messages are in every copy.
create or replace function ask_for_copies(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['qdrant', 'neo4j'], subject_ids);

-- What of a message only points have: its vector.
create function ask_for_points(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['qdrant'], subject_ids);

-- What only graphs hold: participants, rooms, conversations and memories.
create function ask_for_nodes(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['neo4j'], subject_ids);

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
