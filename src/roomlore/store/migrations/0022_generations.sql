-- Whose vectors an org is searched by: one embedding model is read, another may be on its way, and the one before is
-- kept, so that going back is quick.

-- Up to one row for each org and state; an org without any is served by the default provider.
create table generations (
  org_id uuid not null references orgs,
  state text not null check (state in ('current', 'next', 'previous')),
  -- As settings name it: how it is reached is theirs to say, and no key is ever stored.
  provider text not null,
  -- The name of its vector space and the length of its vectors; null until it has been reached.
  model text,
  dimensions integer check (dimensions between 1 and 16000),
  since timestamptz not null default now(),
  -- Since when it gives no vectors, and why.
  failing_since timestamptz,
  error text,
  primary key (org_id, state)
);

alter table generations enable row level security;
alter table generations force row level security;
grant select, insert, update, delete on generations to roomlore_app;
create policy owner on generations to roomlore_owner using (true) with check (true);
create policy change on generations to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

alter table work drop constraint work_stage_check;
alter table work
  add constraint work_stage_check
  check (stage in ('embed', 'untangle', 'interact', 'inject', 'qdrant', 'neo4j', 'reembed'));

-- Ask for messages to be embedded by the next model as well, where the org has one, once this transaction commits; returns
-- how many. For whoever asks the current one: neither model waits for the other.
create function reembed(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work (org_id, stage, subject_id)
    select generations.org_id, 'reembed', subject.id
    from generations
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where generations.org_id = current_org() and generations.state = 'next'
    on conflict (org_id, stage, subject_id) do update
    set version = work.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, set_aside_at = null
    returning work.stage
  ),
  woken as (
    select count(*) as size, pg_notify('roomlore_work', asked.stage) from asked group by asked.stage
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Take up to `total` due rows as before, but none of some orgs: those whose model or server is away.
drop function take_work(text, uuid, integer, integer, interval, boolean);
create function take_work(
  wanted_stage text, only_org uuid, per_org integer, total integer, lease interval,
  suspects boolean default false, without uuid[] default '{}'
)
  returns table (org_id uuid, subject_id uuid, version integer, attempts integer)
  language sql volatile security definer set search_path = roomlore, pg_temp
begin atomic
  with due_orgs as (
    select orgs.org_id
    from orgs
    where speaks_for_nobody()
      and (only_org is null or orgs.org_id = only_org)
      and orgs.org_id <> all (without)
      and exists (
        select 1 from work
        where work.stage = wanted_stage and work.org_id = orgs.org_id
          and work.set_aside_at is null and work.due_at <= now()
          and (work.attempts >= 3) = suspects
      )
    order by random()
  ),
  taken as (
    select mine.org_id, mine.subject_id
    from due_orgs
    cross join lateral (
      select work.org_id, work.subject_id
      from work
      where work.stage = wanted_stage and work.org_id = due_orgs.org_id
        and work.set_aside_at is null and work.due_at <= now()
        and (work.attempts >= 3) = suspects
      order by work.due_at
      limit per_org
      for update skip locked
    ) as mine
    limit total
  ),
  leased as (
    update work
    set
      due_at = now() + lease * case when suspects then 1 + random() else 1 end,
      attempts = work.attempts + 1,
      set_aside_at = case when work.attempts >= 10 then now() end,
      error = case when work.attempts >= 10 then 'Unfinished' else work.error end
    from taken
    where work.org_id = taken.org_id and work.stage = wanted_stage and work.subject_id = taken.subject_id
    returning work.org_id, work.subject_id, work.version, work.attempts, work.set_aside_at
  )
  select leased.org_id, leased.subject_id, leased.version, leased.attempts
  from leased
  where leased.set_aside_at is null;
end;

-- Rows still to do and rows set aside, as before, but of some orgs none are counted.
drop function count_work(text, uuid);
create function count_work(wanted_stage text, only_org uuid, without uuid[] default '{}')
  returns table (waiting bigint, set_aside bigint)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select count(*) filter (where work.set_aside_at is null), count(*) filter (where work.set_aside_at is not null)
  from work
  where work.stage = wanted_stage
    and (only_org is null or work.org_id = only_org)
    and work.org_id <> all (without)
    and speaks_for_nobody();
end;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
