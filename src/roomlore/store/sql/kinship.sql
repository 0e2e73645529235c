-- Memories that say the like of what is stated, or the contrary, in other words.

-- name: kin -> Kin
-- A memory that stands in a circle, and when it was last said.
select
  memories.id, memories.slot,
  coalesce(
    (
      select max(messages.sent_at)
      from memory_sources
      join messages on messages.org_id = memory_sources.org_id and messages.id = memory_sources.message_id
      where memory_sources.org_id = memories.org_id and memory_sources.memory_id = memories.id
    ),
    memories.valid_from
  ) as said_at
from memories
where memories.org_id = %(org_id)s
  and memories.id = %(id)s
  and memories.circle = %(circle)s
  and memories.status = 'active';

-- name: offered -> Offered
-- What was drawn and stands of these circles, but for what rests on these messages or on what a wish covers: what
-- shares most words with a text first; what is about nobody shares one at least.
-- Uses index: memories_saying
select found.id, found.kind, found.content, found.slot, found.circle, found.source_ids
from (
  select
    held.*,
    array(
      select memory_sources.message_id
      from memory_sources
      where memory_sources.org_id = held.org_id and memory_sources.memory_id = held.id
    ) as source_ids,
    (
      select count(*)
      from unnest(tsvector_to_array(held.words)) as one (lexeme)
      where one.lexeme = any (told.lexemes)
    ) as shared
  from (
    select *
    from memories
    where org_id = %(org_id)s
      and circle = any (%(circles)s)
      and status = 'active'
      -- may have become so since
      and sensitivity = 'normal'
    order by valid_from desc, id
    limit %(looked_at)s
  ) as held
  cross join (select tsvector_to_array(to_tsvector('english'::regconfig, %(text)s)) as lexemes) as told
  where exists (
    select 1
    from memory_sources
    where memory_sources.org_id = held.org_id and memory_sources.memory_id = held.id
  )
  and not exists (
    select 1
    from memory_sources
    where memory_sources.org_id = held.org_id
      and memory_sources.memory_id = held.id
      and (
        memory_sources.drawn_by is null
        or memory_sources.message_id = any (%(message_ids)s)
        or exists (
          select 1
          from withheld
          where withheld.org_id = memory_sources.org_id and withheld.message_id = memory_sources.message_id
        )
      )
  )
) as found
where found.shared > 0 or found.circle <> %(of_nobody)s
order by found.shared desc, found.valid_from desc, found.id
limit %(limit)s;

-- name: there -> There
-- How many of these memories are there.
select count(*) as count from memories where org_id = %(org_id)s and id = any (%(memory_ids)s);
