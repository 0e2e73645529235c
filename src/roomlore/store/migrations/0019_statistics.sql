-- Let the planner know what tables have become, as before; and of those that nobody has looked at yet, as soon as there is
-- something in them: how many rows were changed is counted only some time after they were. A table of which an index is
-- being built is left for another time: whoever asks here has others waiting.
create or replace function refresh_statistics() returns void
  language plpgsql volatile security definer set search_path = roomlore, pg_temp set lock_timeout = '500ms'
as $$
declare
  grown regclass;
begin
  for grown in
    select counted.relid
    from pg_stat_user_tables as counted
    join pg_class on pg_class.oid = counted.relid
    where counted.schemaname = 'roomlore'
      and speaks_for_nobody()
      and (
        (counted.n_mod_since_analyze > 1000 and counted.n_mod_since_analyze > counted.n_live_tup / 10)
        or (pg_class.reltuples < 0 and pg_relation_size(counted.relid) > 100000)
      )
  loop
    begin
      execute format('analyze %s', grown);
    exception when lock_not_available then
      continue;
    end;
  end loop;
end $$;
