-- Copies of what is known, in other servers: which there are, and what of them is to be brought up to date.

-- One row for each org and kind of server that holds copies of it.
create table projections (
  org_id uuid not null references orgs,
  target text not null check (target in ('qdrant')),
  -- The copy that is read; null until the first one is whole.
  copy text,
  -- Whose vectors it holds, and how long they are.
  model text,
  dimensions integer,
  -- The copy that is being built beside it, and a transaction that began when everybody could know of it. What others
  -- changed before was not asked for: only when they are all over is everything asked for, and that is noted.
  next_copy text,
  next_model text,
  next_dimensions integer,
  next_xid xid8,
  next_since timestamptz,
  -- Grows with every reading of what is to be written, so that an older one never replaces a newer one.
  turn bigint not null default 0,
  -- Since when the server fails, and how.
  failing_since timestamptz,
  error text,
  primary key (org_id, target),
  check (copy is not null or next_copy is not null)
);

alter table projections enable row level security;
alter table projections force row level security;
grant select, insert, update, delete on projections to roomlore_app;
create policy owner on projections to roomlore_owner using (true) with check (true);
create policy change on projections to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

-- What changed is asked for as work on a subject: whatever it has become is read when it is written. A subject that was
-- erased is asked for all the same, until its copies are gone.
alter table work drop constraint work_stage_check;
alter table work
  add constraint work_stage_check check (stage in ('embed', 'untangle', 'interact', 'inject', 'qdrant'));
-- how long the oldest has waited
create index work_asked on work (org_id, stage, asked_at);

-- Ask for subjects to be written to every copy of the org, once this transaction commits, and wake those who do; returns how
-- often. What is being written stays with whoever has taken it, and is done again afterwards: no subject is written twice
-- at once.
create function ask_for_copies(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work (org_id, stage, subject_id)
    select projections.org_id, projections.target, subject.id
    from projections
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where projections.org_id = current_org()
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

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
