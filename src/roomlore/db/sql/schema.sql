-- name: server_facts
select
  current_setting('server_version') as version,
  current_setting('server_version_num')::integer as version_number,
  (select extversion from pg_extension where extname = 'vector') as pgvector,
  (select default_version from pg_available_extensions where name = 'vector') as pgvector_available,
  rolname::text as login,
  rolsuper or rolbypassrls as is_above_policies,
  pg_database_size(current_database()) as size_bytes
from pg_roles
where rolname = session_user;
