-- The place where an answer is to be posted is part of the read. A transaction that states a place sees only what
-- everybody who reads there could read, besides what the viewer may see anyway. The place is the id of a room, or of a
-- whisper, which is answered to those who hear it. An operator who states a place sees what those there see together.

---------------------------------------------------------------------------------------------------
-- Where it is posted, and who reads there

-- Null: nothing is to be posted.
create function place_id() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('roomlore.place', true), '')::uuid;

-- Whether the operator reads, for a place or without one.
create function reads_for_org() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false);

-- Whether the operator reads, bound to a place.
create function reads_for_place() returns boolean
  language sql stable parallel safe
  return reads_for_org() and place_id() is not null;

-- Whether the operator reads, who sees everything: not where the answer is to be posted.
create or replace function viewer_is_operator() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false)
    and nullif(current_setting('roomlore.place', true), '') is null;

create type place_bounds as (
  -- the place
  id uuid,
  -- the room in which it is
  room_id uuid,
  -- Whoever reads there, each person once; null: more than can be named, the whole org or whoever else is in a closed room
  -- whose members were never listed whole. Empty: nobody, so nothing may be posted there.
  people uuid[],
  -- The rooms in which all of them were members at the same time, and when that was. Where not all of them can be named, the
  -- room itself alone, while those were there who can.
  rooms uuid[],
  spans tstzmultirange[]
);

-- The persons that some accounts are of, each once: as far as whoever calls it may know, which for the functions below is
-- everything.
create function persons_of(accounts uuid[]) returns uuid[]
  language sql stable parallel safe set search_path = roomlore, pg_temp
  return array(
    select distinct coalesce(merges.person_id, one.id)
    from unnest(accounts) as one (id)
    left join merges on merges.org_id = current_org() and merges.participant_id = one.id
  );

-- Whether all who are in a closed room now are known: its members were listed whole once, or an operator stated each of
-- them, or it is a room of two and both are known. Otherwise others may read along who never wrote.
create function members_are_known(room uuid, known integer) returns boolean
  language plpgsql stable parallel safe set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from rooms
    where rooms.org_id = current_org()
      and rooms.id = room
      and (rooms.members_at is not null or (rooms.kind = 'dm' and known >= 2))
  )
  or not exists (
    select 1
    from memberships
    where memberships.org_id = current_org()
      and memberships.room_id = room
      and (memberships.left_at is null or memberships.left_at > now())
    group by memberships.participant_id
    having not bool_or(memberships.by_operator)
  );
end $$;

-- Who reads at a place, and when all of them were where. A closed room is nobody's place where no member is known, and
-- where the viewer is no member any more: whoever came since is not theirs to know.
create function find_place(place uuid) returns place_bounds
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held place_bounds := row(place, null::uuid, '{}'::uuid[], '{}'::uuid[], '{}'::tstzmultirange[]);
  accounts uuid[];
  is_whole boolean := true;
begin
  select rooms.id, case when rooms.visibility = 'open' then null else held.people end
  into held.room_id, held.people
  from rooms
  where rooms.org_id = current_org() and rooms.id = place;
  if found and held.people is null then
    return held;
  end if;
  if found then
    accounts := array(
      select memberships.participant_id
      from memberships
      where memberships.org_id = current_org()
        and memberships.room_id = place
        and (memberships.left_at is null or memberships.left_at > now())
    );
    is_whole := members_are_known(place, cardinality(persons_of(accounts)));
  else
    held.people := '{}';
    select messages.room_id, hearers.ids
    into held.room_id, accounts
    from messages
    cross join lateral (
      select array(
        select message_audience.participant_id
        from message_audience
        where message_audience.org_id = messages.org_id and message_audience.message_id = messages.id
        union
        select messages.author_id
      ) as ids
    ) as hearers
    where messages.org_id = current_org() and messages.id = place and messages.kind = 'whisper';
  end if;
  held.people := persons_of(accounts);
  if held.people = '{}' or not (reads_for_org() or held.people && persons_of(own_ids())) then
    return row(place, null::uuid, '{}'::uuid[], '{}'::uuid[], '{}'::tstzmultirange[]);
  end if;
  select coalesce(array_agg(shared.room_id order by shared.room_id), '{}'),
    coalesce(array_agg(shared.spans order by shared.room_id), '{}')
  into held.rooms, held.spans
  from (
    select stays.room_id, range_intersect_agg(stays.spans) as spans
    from (
      select
        memberships.room_id, person.id,
        range_agg(tstzrange(memberships.joined_at, memberships.left_at)) as spans
      from unnest(held.people) as person (id)
      cross join lateral (
        select person.id as participant_id
        union all
        select merges.participant_id
        from merges
        where merges.org_id = current_org() and merges.person_id = person.id
      ) as account
      join memberships
        on memberships.org_id = current_org()
        and memberships.participant_id = account.participant_id
        and (is_whole or memberships.room_id = place)
      group by memberships.room_id, person.id
    ) as stays
    group by stays.room_id
    having count(*) = cardinality(held.people)
  ) as shared
  where not isempty(shared.spans);
  if not is_whole then
    held.people := null;
  end if;
  return held;
end $$;

-- Look once, for a transaction that has just stated its place, who reads there and what all of them heard; return whether
-- anybody reads there.
create function keep_place() returns boolean
  language plpgsql volatile security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant place_bounds := find_place(place_id());
begin
  perform set_config('roomlore.place_bounds', held::text, true);
  return held.people is null or held.people <> '{}';
end $$;

-- The place of the transaction: as it was looked up, or else looked up now.
create function bounds_of_place() returns place_bounds
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant place_bounds := nullif(current_setting('roomlore.place_bounds', true), '')::place_bounds;
begin
  if held.id = place_id() then
    return held;
  end if;
  return find_place(place_id());
end $$;

-- Parts of it, each asked once for a statement.
create function place_has_readers() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).people is null or (held).people <> '{}' from bounds_of_place() as held);

create function place_room() returns uuid
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).room_id from bounds_of_place() as held);

create function place_rooms() returns uuid[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).rooms from bounds_of_place() as held);

create function place_spans() returns tstzmultirange[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).spans from bounds_of_place() as held);

-- Whether a presence is known to all who read at the place: in an open room, or while all of them were there.
create function place_knows(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant place_bounds := bounds_of_place();
begin
  return place_has_readers()
    and (
      exists (select 1 from rooms where rooms.org_id = current_org() and rooms.id = room and rooms.visibility = 'open')
      or coalesce(held.spans[array_position(held.rooms, room)] && tstzrange(from_at, until_at), false)
    );
end $$;

-- Whether whoever reads at the place is no other than who asserted something.
create function place_is_of(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return participant is not null
    and coalesce((select (held).people = persons_of(array[participant]) from bounds_of_place() as held), false);

---------------------------------------------------------------------------------------------------
-- What of it may be seen there

-- As before; and an operator who is bound to a place sees which rooms are open.
create or replace view open_rooms_of_viewer with (security_barrier = true) as
select rooms.id as room_id
from rooms
where rooms.org_id = (select current_org())
  and rooms.visibility = 'open'
  -- a single value, which is looked up once
  and (
    (select reads_for_place())
    or (select true from participants where participants.org_id = current_org() and participants.id = viewer_id())
  );

-- What the viewer may read wherever it is posted: the rule for messages as it was, as the policy and as a view.
do $$
declare
  by_operator constant text := $re$\( SELECT (roomlore\.)?viewer_is_operator\(\) AS viewer_is_operator\)$re$;
  by_org constant text := '(select roomlore.reads_for_org())';
  rule text;
  shown constant text := pg_get_viewdef('readable_messages'::regclass);
begin
  select pg_get_expr(polqual, polrelid) into rule
  from pg_policy
  where polrelid = 'messages'::regclass and polname = 'read';
  if regexp_count(rule, by_operator) <> 1 or regexp_count(shown, by_operator) <> 1 then
    raise exception 'the rule for messages is not the one expected';
  end if;
  execute format('alter policy read on messages using (%s)', regexp_replace(rule, by_operator, by_org));
  execute format('create view messages_anywhere as %s', regexp_replace(shown, by_operator, by_org));
end $$;

-- Whether all who read at the place are among those who wrote a message or are addressed by it. About what the viewer may
-- not read it says no.
create function heard_by_place(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  people constant uuid[] := (bounds_of_place()).people;
begin
  return coalesce(people <> '{}', false)
    and people <@ persons_of(
      array(
        select said.author_id from messages_anywhere as said where said.id = message
        union all
        select message_audience.participant_id
        from message_audience
        where message_audience.org_id = current_org() and message_audience.message_id = message
      )
    )
    and exists (select 1 from messages_anywhere as said where said.id = message);
end $$;

-- Whether anything is withheld in the org: asked once, it spares what follows.
create function org_withholds() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (select 1 from withheld where withheld.org_id = current_org());

-- Whether a message that the viewer may read is withheld from anybody who reads at the place.
create function withheld_from_place(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  people constant uuid[] := (bounds_of_place()).people;
begin
  return exists (
      select 1
      from withheld
      where withheld.org_id = current_org()
        and withheld.message_id = message
        and case
          when people is null then true
          when withheld.from_ids is null then not people <@ persons_of(withheld.spared_ids)
          else people && persons_of(withheld.from_ids)
        end
    )
    and exists (select 1 from messages_anywhere as said where said.id = message);
end $$;

-- A function, since it is asked about only where a place is stated: within the rule it would be planned for every read.
create function is_open_room(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1 from rooms where rooms.org_id = current_org() and rooms.id = room and rooms.visibility = 'open'
  );
end $$;

-- The rule for messages, as the policy and as the view that candidate search reads: whoever states a place sees no more
-- than all who read there. In an open room that is what was said for everybody; elsewhere what was said while all of them
-- were there, and what was whispered to each of them.
do $$
declare
  place_rule constant text := $rule$
    (select roomlore.place_id()) is null
    or (select roomlore.place_has_readers())
      and (
        messages.kind in ('message', 'system')
          and (
            roomlore.is_open_room(messages.room_id)
            or ((select roomlore.place_spans())::tstzmultirange[])[
              array_position((select roomlore.place_rooms())::uuid[], messages.room_id)
            ] @> messages.sent_at
          )
        or messages.kind = 'context_injection' and messages.is_directed and roomlore.still_given(messages.id)
        or messages.kind in ('whisper', 'context_injection')
          and not messages.is_directed
          and roomlore.heard_by_place(messages.id)
      )
      and not (
        (select roomlore.recalling())
        and (select roomlore.org_withholds())
        and roomlore.withheld_from_place(messages.id)
      )
  $rule$;
begin
  execute format($policy$
    create policy place on messages as restrictive for select to roomlore_app
    using (org_id = (select roomlore.current_org()) and (%s))
  $policy$, place_rule);
  execute format(
    'create or replace view readable_messages as %s and (%s)',
    rtrim(pg_get_viewdef('messages_anywhere'::regclass), ';'), place_rule
  );
end $$;

-- Whether the viewer may see a conversation: everything said in it, and of a sensitive one was there when it
-- was said. A conversation without messages is the operator's.
create or replace function can_follow(conversation uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held conversations;
begin
  select * into held from conversations where org_id = current_org() and id = conversation;
  if not found then
    return false;
  end if;
  if viewer_is_operator() then
    return true;
  end if;
  return exists (
      select 1 from placements where org_id = current_org() and conversation_id = conversation
    )
    and not exists (
      select 1
      from placements
      where placements.org_id = current_org()
        and placements.conversation_id = conversation
        -- A single value and not an existence, which might be answered by reading all that the viewer may.
        and (
          select true
          from readable_messages as said
          where said.id = placements.message_id and (held.sensitivity = 'normal' or attended(said.id))
          limit 1
        ) is null
    );
end $$;

-- A memory that rests on nothing that was said is told only where nobody else reads than who asserted it.
do $$
declare
  rule constant text := pg_get_functiondef('can_recall(uuid)'::regprocedure);
  asserted constant text := 'if not (sees_all or ';
begin
  if strpos(rule, asserted) = 0 then
    raise exception 'the rule for memories is not the one expected';
  end if;
  execute replace(rule, asserted, 'if not (place_id() is null or place_is_of(held.asserted_by)) or not (sees_all or ');
end $$;

-- Whom the viewer knows from somewhere that all who read at the place know of as well.
create or replace function knows(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where org_id = current_org()
      and participant_id = participant
      and (
        room_id in (select open_rooms_of_viewer.room_id from open_rooms_of_viewer)
        or reads_for_place()
        or witnessed(room_id, joined_at, left_at)
      )
      and (place_id() is null or place_knows(room_id, joined_at, left_at))
  );

create policy place_of_operator on memberships for select to roomlore_app using (
  org_id = (select current_org()) and (select reads_for_place())
);
create policy place on memberships as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and ((select place_id()) is null or place_knows(room_id, joined_at, left_at))
);

create policy place_of_operator on rooms for select to roomlore_app using (
  org_id = (select current_org()) and (select reads_for_place())
);
create policy place on rooms as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select place_id()) is null
    or (select place_has_readers())
      and (visibility = 'open' or id = (select place_room()) or id = any ((select place_rooms())::uuid[]))
  )
);

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
