-- name: tables
-- The columns that are written, by table. The database computes generated columns.
select pg_class.relname::text, array_agg(pg_attribute.attname::text order by pg_attribute.attnum)
from pg_class
join pg_attribute on pg_attribute.attrelid = pg_class.oid
where pg_class.relnamespace = 'roomlore'::regnamespace
  and pg_class.relkind in ('r', 'p')
  and not pg_class.relispartition
  and pg_attribute.attnum > 0
  and not pg_attribute.attisdropped
  and pg_attribute.attgenerated = ''
group by pg_class.relname
order by pg_class.relname;

-- name: references
-- Which table references which other table.
select distinct referencing.relname::text, referenced.relname::text
from pg_constraint
join pg_class as referencing on referencing.oid = pg_constraint.conrelid
join pg_class as referenced on referenced.oid = pg_constraint.confrelid
where pg_constraint.connamespace = 'roomlore'::regnamespace
  and pg_constraint.contype = 'f'
  and pg_constraint.conrelid <> pg_constraint.confrelid
  and not referencing.relispartition
  and not referenced.relispartition;

-- name: vector_indexes
select pg_class.relname::text
from pg_index
join pg_class on pg_class.oid = pg_index.indexrelid
join pg_am on pg_am.oid = pg_class.relam
where pg_class.relnamespace = 'roomlore'::regnamespace and pg_am.amname = 'hnsw' and not pg_class.relispartition;

-- name: snapshot_time
select now();

-- name: rows_by_model
select model, count(*) from embedded group by model order by model;

-- name: other_logins
-- Only of Roomlore: monitoring may stay connected.
select distinct activity.usename::text
from pg_stat_activity as activity
where activity.datname = current_database()
  and activity.pid <> pg_backend_pid()
  and (
    activity.usename = 'roomlore_app'
    or exists (
      select
      from pg_auth_members as granted
      where granted.roleid = 'roomlore_app'::regrole and granted.member = activity.usesysid
    )
  );

-- name: org_ids
select org_id from orgs order by org_id;
