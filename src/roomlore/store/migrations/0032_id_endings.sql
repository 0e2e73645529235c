-- People name a memory, a conversation, a key, a receipt or a wish by the end of its id: ids that were made together begin
-- alike and end at random. The id from its end on is a column, since a comparison of columns may use an index under
-- row-level security, and a function of one may not.
do $$
declare
  name text;
begin
  foreach name in array array['memories', 'conversations', 'api_keys', 'receipts', 'wishes'] loop
    execute format(
      'alter table %I add column id_from_end uuid not null
        generated always as (reverse(replace(id::text, %L, %L))::uuid) stored', name, '-', '');
    execute format('create index %I on %I (org_id, id_from_end)', name || '_from_end', name);
  end loop;
end $$;
