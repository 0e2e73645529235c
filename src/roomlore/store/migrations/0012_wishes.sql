-- Wishes that are spoken: what is to be forgotten, what stays between some, what is kept from some. They decide what
-- recall may show: search, answers, context, memories. A room's own timeline shows what was said as it was said.

create table wishes (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  -- what voices it: its words are there, and nowhere else
  message_id uuid not null,
  author_id uuid not null,
  kind text not null check (kind in ('forget', 'confide', 'withhold')),
  status text not null default 'active' check (status in ('active', 'undone')),
  -- what heard it: 'rules' or the name of a language model
  heard_by text not null,
  heard_at timestamptz not null,
  undone_at timestamptz,
  -- null: by the operator
  undone_by uuid,
  -- What it covers, so that a message that comes later is asked by itself. Messages by their ids, values as digests,
  -- matters by their names; none of it is a word that was said.
  target_ids uuid[] not null default '{}',
  marks text[] not null default '{}',
  own_marks text[] not null default '{}',
  -- from whom; null: from everybody but those who are spared
  from_ids uuid[],
  spared_ids uuid[] not null default '{}',
  is_standing boolean not null default false,
  permits text[] not null default '{}',
  denies text[] not null default '{}',
  -- whose words a restriction covers; null: everybody's
  of_ids uuid[],
  -- What something else than rules heard, which rules would not find again: its words as places in the text that voices
  -- it, never in words, and a digest of that text. Null: rules hear it anew.
  told jsonb,
  primary key (org_id, id),
  unique (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  foreign key (org_id, undone_by) references participants (org_id, id),
  check ((status = 'undone') = (undone_at is not null)),
  check ((told is null) = (heard_by = 'rules'))
);

create index wishes_of_room on wishes (org_id, room_id, message_id);
create index wishes_of_author on wishes (org_id, author_id);

-- What is withheld, by which wish, and from whom; as a wish has it.
create table withheld (
  org_id uuid not null references orgs,
  message_id uuid not null,
  wish_id uuid not null,
  from_ids uuid[],
  spared_ids uuid[] not null default '{}',
  primary key (org_id, message_id, wish_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, wish_id) references wishes (org_id, id)
);

create index withheld_by on withheld (org_id, wish_id);

---------------------------------------------------------------------------------------------------
-- Who is shown what

-- Whether the transaction recalls, and does not read what was said where it was said.
create function recalling() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.recall', true), '') = 'on';

-- What wishes keep from the viewer. The operator, and everybody where nobody is named, is shown nothing that is not
-- spared to them.
create view withheld_from_viewer with (security_barrier = true) as
select withheld.message_id
from withheld
where withheld.org_id = (select current_org())
  and case
    when withheld.from_ids is null then not withheld.spared_ids && (select own_ids())::uuid[]
    else withheld.from_ids && (select own_ids())::uuid[]
  end;
grant select on withheld_from_viewer to roomlore_app;

-- Whether anything is withheld in the org at all: asked once, it spares what follows.
create function anything_withheld() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (select 1 from withheld where withheld.org_id = current_org());

-- Whether wishes keep a message from the viewer.
create function is_withheld(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from withheld_from_viewer where message_id = message);
end $$;

-- What the viewer may read and recall may show them.
create view recallable_messages as
select said.*
from readable_messages as said
where not (select anything_withheld())
  -- A single value and not an existence, which might be answered by reading all that is withheld.
  or (select true from withheld_from_viewer as kept where kept.message_id = said.id limit 1) is null;

-- What recalls, reads what wishes leave: whoever may read it else, for a restrictive policy narrows all others.
create policy recall on messages as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (
    not (select recalling())
    or (select true from withheld_from_viewer as kept where kept.message_id = messages.id limit 1) is null
  )
);

-- And so does what proposes candidates, in which nothing else changes.
do $$
declare
  proposing oid;
begin
  for proposing in
    select pg_proc.oid
    from pg_proc
    where pronamespace = 'roomlore'::regnamespace
      and proname in ('nearest_exact', 'nearest_indexed', 'best_worded', 'surroundings', 'token_vectors')
  loop
    execute replace(pg_get_functiondef(proposing), 'readable_messages', 'recallable_messages');
  end loop;
end $$;

-- Whether the viewer asserted or stated a memory, or it is about them or was seen through their eyes.
create function is_concerned(held memories) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return coalesce(held.asserted_by = any (own_ids()), false)
    or exists (
      select 1
      from memory_participants
      where memory_participants.org_id = current_org()
        and memory_participants.memory_id = held.id
        and memory_participants.role <> 'involved'
        and memory_participants.participant_id = any (own_ids())
    );
end $$;

-- Whether the viewer may be told a memory: of every source they may read it, of a sensitive one they were there when
-- it was said, and no wish keeps it from them; without sources it is the memory of whoever asserted it. One that was
-- superseded is not there for those who may not see what took its place: to them it would still stand. Ends also
-- where memories were put in each other's place. One that was put aside is for those it concerns. An operator who does not recall sees every memory.
create or replace function can_recall(memory uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held memories;
  next_id uuid := memory;
  seen uuid[] := '{}';
  sees_all constant boolean := viewer_is_operator();
begin
  loop
    select * into held from memories where org_id = current_org() and id = next_id;
    if not found then
      return false;
    end if;
    if sees_all and not recalling() then
      return true;
    end if;
    if held.archived_at is not null and not sees_all and not is_concerned(held) then
      return false;
    end if;
    if not exists (select 1 from memory_sources where org_id = current_org() and memory_id = held.id) then
      if not (sees_all or coalesce(held.asserted_by = any (own_ids()), false)) then
        return false;
      end if;
    elsif exists (
      select 1
      from memory_sources
      where org_id = current_org()
        and memory_id = held.id
        and (
          not case held.sensitivity
            when 'normal' then can_read(message_id)
            else sees_all or attended(message_id)
          end
          or is_withheld(message_id)
        )
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

-- An operator who recalls is held to wishes like everybody; others are by what they may see anyway.
do $$
declare
  held text;
begin
  foreach held in array array['memories.id', 'memory_sources.memory_id', 'memory_participants.memory_id', 'memory_tags.memory_id'] loop
    execute format($policy$
      create policy recall on %s as restrictive for select to roomlore_app using (
        org_id = (select current_org())
        and (not (select recalling() and viewer_is_operator()) or can_recall(%s))
      )
    $policy$, split_part(held, '.', 1), split_part(held, '.', 2));
  end loop;
end $$;

do $$
declare
  name text;
begin
  foreach name in array array['wishes', 'withheld'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('grant select, insert, update, delete on %I to roomlore_app', name);
    execute format('create policy owner on %I to roomlore_owner using (true) with check (true)', name);
    execute format($policy$
      create policy change on %I to roomlore_app
      using (org_id = (select current_org()) and (select viewer_is_operator()))
      with check (org_id = (select current_org()) and (select viewer_is_operator()))
    $policy$, name);
  end loop;
end $$;

-- A wish is its author's to see; what is withheld is nobody's: that a row is there would tell.
create policy read on wishes for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or author_id = any ((select own_ids())::uuid[]))
);

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
