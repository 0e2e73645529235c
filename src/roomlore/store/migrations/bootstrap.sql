-- Roles, extension and schema. Runs before every migration, as whoever logs in; safe to repeat.

-- Roles belong to the server, the migration lock to one database: another may make the role meanwhile.
do $$
declare
  name text;
begin
  foreach name in array array['roomlore_owner', 'roomlore_app'] loop
    if not exists (select 1 from pg_roles where rolname = name) then
      begin
        execute format('create role %I nologin', name);
      exception when duplicate_object or unique_violation then
        null;
      end;
    end if;
  end loop;
end $$;

do $$
begin
  execute format('grant roomlore_owner, roomlore_app to %I', current_user);
end $$;

create extension if not exists vector;
do $$
begin
  -- makes large orgs faster; not every server has it
  if exists (select 1 from pg_available_extensions where name = 'btree_gin') then
    create extension if not exists btree_gin;
  end if;
end $$;

create schema if not exists roomlore authorization roomlore_owner;

set role roomlore_owner;

grant usage on schema roomlore to roomlore_app;
alter default privileges for role roomlore_owner revoke execute on functions from public;

create table if not exists roomlore.migrations (
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default now()
);
grant select on roomlore.migrations to roomlore_app;

reset role;
