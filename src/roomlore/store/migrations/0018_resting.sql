-- What memories rest on, whom they name and what marks them. These rows are for whoever may see the memory, which a
-- policy asks for each row: of a memory that rests on fifty messages fifty times, each time of all fifty. Here it is
-- asked once for each memory.

-- The ties of memories: one row for each message that one rests on, each participant it names whom the viewer may know,
-- and each tag.
create function ties_of(memories uuid[])
returns table (
  memory_id uuid, message_id uuid, quote_start integer, quote_end integer, drawn_by text,
  participant_id uuid, role text, tag text
)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  with told as materialized (
    select asked.id
    from (select distinct one.id from unnest(memories) as one (id)) as asked
    cross join lateral (select 1 where can_recall(asked.id) offset 0) as seen
  ),
  named as materialized (
    select held.memory_id, held.participant_id, held.role
    from told
    join memory_participants as held on held.org_id = current_org() and held.memory_id = told.id
  ),
  known as materialized (
    select asked.id
    from (select distinct named.participant_id as id from named) as asked
    cross join lateral (select 1 where viewer_is_operator() or can_know(asked.id) offset 0) as seen
  )
  select held.memory_id, held.message_id, held.quote_start, held.quote_end, held.drawn_by, null::uuid, null, null
  from told
  join memory_sources as held on held.org_id = current_org() and held.memory_id = told.id
  union all
  select named.memory_id, null, null, null, null, named.participant_id, named.role, null
  from named
  join known on known.id = named.participant_id
  union all
  select held.memory_id, null, null, null, null, null, null, held.tag
  from told
  join memory_tags as held on held.org_id = current_org() and held.memory_id = told.id
$$;

-- The memories that rest on these messages.
create function resting_on(messages uuid[])
returns table (message_id uuid, memory_id uuid)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  with resting as materialized (
    select held.message_id, held.memory_id
    from memory_sources as held
    where held.org_id = current_org() and held.message_id = any (messages)
  ),
  seen as materialized (
    select asked.memory_id
    from (select distinct resting.memory_id from resting) as asked
    cross join lateral (select 1 where can_recall(asked.memory_id) offset 0) as seen
  )
  select resting.message_id, resting.memory_id
  from resting
  join seen on seen.memory_id = resting.memory_id
$$;

-- The newest memories that are meant, newest first; all of them where `wanted` is null. What is null narrows nothing.
-- What narrows is looked at first, and whether one may be seen is asked of what is left, as far as it is wanted. Nobody
-- is named by it whom the viewer may not know.
create function newest_memories(
  room_ids uuid[], subject_ids uuid[], author_ids uuid[], perspective_ids uuid[], kinds text[], statuses text[],
  tags text[], task text, since timestamptz, as_of timestamptz, before uuid, wanted bigint
)
returns table (memory_id uuid)
  language sql stable security definer set search_path = roomlore, pg_temp
  set plan_cache_mode = force_custom_plan
as $$
  with whom as materialized (
    select
      asked.role,
      array(select one.id from unnest(asked.ids) as one (id) where viewer_is_operator() or can_know(one.id)) as ids
    from (
      values ('subject', subject_ids), ('author', author_ids), ('perspective', perspective_ids)
    ) as asked (role, ids)
    where asked.ids is not null
  )
  select meant.id
  from (
    select held.id
    from memories as held
    where held.org_id = current_org()
      and (statuses is null or held.status = any (statuses))
      and (kinds is null or held.kind = any (kinds))
      and (task is null or held.task_id = task)
      and (before is null or held.id < before)
      and (since is null or held.valid_from >= since)
      and (
        as_of is null
        or (
          held.valid_from <= as_of
          and held.archived_at is null
          and (
            held.superseded_by is null
            or exists (
              select 1
              from memories as later
              where later.org_id = held.org_id
                and later.id = held.superseded_by
                and later.valid_from > as_of
                -- One that is not seen tells nothing of when it was.
                and can_recall(later.id)
            )
          )
        )
      )
      and (
        tags is null
        or exists (
          select 1
          from memory_tags
          where memory_tags.org_id = held.org_id and memory_tags.memory_id = held.id and memory_tags.tag = any (tags)
        )
      )
      and (
        room_ids is null
        or held.asserted_in = any (room_ids)
        or exists (
          select 1
          from memory_sources as rests
          -- Looked up one by one, and never by going through the room.
          cross join lateral (
            select said.room_id
            from messages as said
            where said.org_id = rests.org_id and said.id = rests.message_id
            offset 0
          ) as place
          where rests.org_id = held.org_id and rests.memory_id = held.id and place.room_id = any (room_ids)
        )
      )
      and not exists (
        select 1
        from whom
        where not exists (
          select 1
          from memory_participants as named
          where named.org_id = held.org_id
            and named.memory_id = held.id
            and named.role = whom.role
            and named.participant_id = any (whom.ids)
        )
      )
    order by held.id desc
    offset 0
  ) as meant
  cross join lateral (select 1 where can_recall(meant.id) offset 0) as seen
  order by meant.id desc
  limit wanted
$$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
