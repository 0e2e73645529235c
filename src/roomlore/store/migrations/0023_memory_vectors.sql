-- Memories are found by meaning, too: each has its vectors, made by the same work as those of messages.

-- Beside the vectors of messages, which are of a room and have those of their tokens with them; few, and looked through
-- one by one.
create table memory_embeddings (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  model text not null,
  embedding halfvec not null,
  primary key (org_id, memory_id, model),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

create index memory_embeddings_of_model on memory_embeddings (org_id, model);

alter table memory_embeddings enable row level security;
alter table memory_embeddings force row level security;
grant select, insert, update, delete on memory_embeddings to roomlore_app;
create policy owner on memory_embeddings to roomlore_owner using (true) with check (true);
create policy change on memory_embeddings to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));
create policy read on memory_embeddings for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(memory_id))
);
-- An operator who recalls is held to wishes like everybody; others are by what they may see anyway.
create policy recall on memory_embeddings as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling() and viewer_is_operator()) or can_recall(memory_id))
);

-- The memories that are to have a vector: all but what a person put aside. What was superseded can be found as history.
create view embeddable_memories with (security_invoker = true) as
select memories.org_id, memories.id, memories.content
from memories
where memories.status <> 'archived';
grant select on embeddable_memories to roomlore_app;

-- Whatever is to have a vector, messages and memories, and whatever has one: of which model, and whether all is there
-- that the model gives for it. No message has the id of a memory.
create view embeddable with (security_invoker = true) as
select org_id, id from embeddable_messages
union all
select org_id, id from embeddable_memories;
grant select on embeddable to roomlore_app;

create view embedded with (security_invoker = true) as
select org_id, message_id as id, model, tokens is not null as has_tokens from message_embeddings
union all
-- nothing compares a memory token by token
select org_id, memory_id, model, true from memory_embeddings;
grant select on embedded to roomlore_app;

-- The memories whose vectors are nearest, among those that the viewer may see: distances first, the rule in their order
-- until enough are found. What was put aside is not found. The rule is a function, and dear: whether the sources are there
-- to be read, without which nobody sees a memory, and who asserted what has none, is looked at before, in a small part of
-- the time.
create function nearest_memories(query halfvec, wanted_model text, wanted integer)
  returns table (memory_id uuid, similarity double precision)
  language sql stable security definer set search_path = roomlore, public, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan
as $$
  select near.memory_id, 1 - near.distance
  from (
    select vectors.memory_id, (vectors.embedding <=> query) + 0 as distance
    from memory_embeddings as vectors
    where vectors.org_id = current_org() and vectors.model = wanted_model
    order by distance, vectors.memory_id
    offset 0
  ) as near
  cross join lateral (
    select 1
    from memories as held
    where held.org_id = current_org()
      and held.id = near.memory_id
      and held.status <> 'archived'
      and not exists (
        select 1
        from memory_sources as rests
        where rests.org_id = current_org()
          and rests.memory_id = near.memory_id
          and (select said.id from readable_messages as said where said.id = rests.message_id limit 1) is null
      )
      and (
        (select viewer_is_operator())
        or held.asserted_by = any (own_ids())
        or exists (
          select 1
          from memory_sources as rests
          where rests.org_id = current_org() and rests.memory_id = near.memory_id
        )
      )
    offset 0
  ) as readable
  cross join lateral (select 1 where can_recall(near.memory_id) offset 0) as seen
  order by near.distance, near.memory_id
  limit wanted
$$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
