-- A newer memory takes the place of an older one, and memories are found by their words.

alter table memories
  -- what took its place; null where it still stands
  add column superseded_by uuid,
  -- of its content
  add column words tsvector not null generated always as (to_tsvector('english'::regconfig, content)) stored,
  add foreign key (org_id, superseded_by) references memories (org_id, id),
  add check (superseded_by <> id);

create index memories_superseded on memories (org_id, superseded_by) where superseded_by is not null;
create index memories_words on memories using gin (words);

-- Whether something was removed in a room, for lines of logs that may be of it.
create index messages_removed on messages (org_id, room_id)
  where redacted_at is not null or erased_at is not null;

-- Whether the viewer may see a memory: every source, and of a sensitive one was there when each was said; without
-- sources it is the memory of whoever asserted it. One that was superseded is not there for those who may not see
-- what took its place: to them it would still stand. Ends also where memories were put in each other's place.
create or replace function can_recall(memory uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held memories;
  next_id uuid := memory;
  seen uuid[] := '{}';
begin
  loop
    select * into held from memories where org_id = current_org() and id = next_id;
    if not found then
      return false;
    end if;
    if viewer_is_operator() then
      return true;
    end if;
    if not exists (select 1 from memory_sources where org_id = current_org() and memory_id = held.id) then
      if not coalesce(held.asserted_by = any (own_ids()), false) then
        return false;
      end if;
    elsif exists (
      select 1
      from memory_sources
      where org_id = current_org()
        and memory_id = held.id
        and not case held.sensitivity when 'normal' then can_read(message_id) else attended(message_id) end
    ) then
      return false;
    end if;
    seen := seen || held.id;
    next_id := held.superseded_by;
    if next_id is null or next_id = any (seen) then
      return true;
    end if;
  end loop;
end $$;

-- The memories that share the rarest words with a question, among those that the viewer may see; what is counted is
-- counted among these. Of a long question the first words are looked for.
create function worded_memories(question text, wanted integer)
returns table (memory_id uuid, coverage double precision, terms text[])
  language sql stable security definer set search_path = roomlore, pg_temp
  set plan_cache_mode = force_custom_plan
as $$
  with asked as (
    select one.lexeme, any_word(one.lexeme) as query
    from unnest(to_tsvector('english'::regconfig, question)) as one
    order by one.positions[1], one.lexeme
    limit 64
  ),
  matched as materialized (
    select held.id, held.words
    from memories as held
    where held.org_id = current_org()
      and held.words @@ (select any_word(variadic array_agg(lexeme)) from asked)
      and can_recall(held.id)
  ),
  hits as (
    select matched.id, asked.lexeme
    from matched
    join asked on matched.words @@ asked.query
  ),
  rarity as (
    select
      asked.lexeme,
      ln(1 + 2 * (select count(*) from matched)::float8 / greatest(count(hits.id), 0.5)) as idf
    from asked
    left join hits on hits.lexeme = asked.lexeme
    group by asked.lexeme
  )
  select
    hits.id,
    sum(rarity.idf) / (select sum(idf) from rarity) as coverage,
    array_agg(hits.lexeme order by rarity.idf desc, hits.lexeme)
  from hits
  join rarity using (lexeme)
  group by hits.id
  order by coverage desc, hits.id desc
  limit wanted
$$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
