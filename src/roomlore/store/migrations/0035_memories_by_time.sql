-- The newest memories are those true since last, and not those recorded last: what is imported later may have been said
-- earlier. A page goes on behind a time and an id, so the memory that it goes on behind need not be there any more.

create index memories_by_time on memories (org_id, valid_from, id);

do $$
declare
  listing text := pg_get_functiondef(
    'newest_memories(uuid[], uuid[], uuid[], uuid[], text[], text[], text[], text, timestamptz, timestamptz, uuid, bigint)'::regprocedure
  );
  change text[];
begin
  foreach change slice 1 in array array[
    ['before uuid', 'before_at timestamp with time zone, before_id uuid'],
    ['TABLE(memory_id uuid)', 'TABLE(memory_id uuid, valid_from timestamp with time zone)'],
    ['select meant.id', 'select meant.id, meant.valid_from'],
    ['select held.id', 'select held.id, held.valid_from'],
    [
      '(before is null or held.id < before)',
      '(held.valid_from, held.id)'
        || ' < (coalesce(before_at, ''infinity''), coalesce(before_id, ''ffffffff-ffff-ffff-ffff-ffffffffffff''))'
    ],
    ['order by held.id desc', 'order by held.valid_from desc, held.id desc'],
    ['order by meant.id desc', 'order by meant.valid_from desc, meant.id desc']
  ] loop
    if strpos(listing, change[1]) = 0 then
      raise exception 'the list of memories is not the one expected: it lacks %', change[1];
    end if;
    listing := replace(listing, change[1], change[2]);
  end loop;
  drop function newest_memories(
    uuid[], uuid[], uuid[], uuid[], text[], text[], text[], text, timestamptz, timestamptz, uuid, bigint
  );
  execute listing;
end $$;

-- What a room is called among all: rooms of several workspaces share names. Names what `find_rooms` finds, too.
create function called_room(workspace text, name text) returns text
  language sql immutable parallel safe
  return case when workspace = '' or name = '' then name else workspace || '/' || name end;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
