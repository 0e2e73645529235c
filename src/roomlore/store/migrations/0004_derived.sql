-- What is derived from messages: conversations, memories, relationships. Each is seen by those who may see
-- everything it was made from; what nothing tells the audience of is nobody's.

create table conversations (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  label text not null default '',
  -- a person called it so, and so it stays
  is_named boolean not null default false,
  sensitivity text not null default 'normal' check (sensitivity in ('normal', 'sensitive')),
  -- a person said how sensitive it is
  is_marked boolean not null default false,
  -- why it is one of its own: nothing was said before, nobody had spoken for long, others spoke of something
  -- else, or a person said so
  boundary text not null check (boundary in ('first', 'silence', 'topic', 'person')),
  -- of its first and its newest message
  opened_at timestamptz not null,
  last_at timestamptz not null,
  -- by the pace of its room: it is open until nobody has spoken in it for so long
  quiet_after interval not null check (quiet_after > interval '0'),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index conversations_newest on conversations (org_id, last_at desc, id);
create index conversations_of_room on conversations (org_id, room_id, last_at desc, id);

-- Which conversation a message is in. Beside the messages, because what is derived comes and goes, and writing it
-- into their wide and much indexed rows costs many times more.
create table placements (
  -- an org by way of its message
  org_id uuid not null,
  message_id uuid not null,
  conversation_id uuid not null,
  -- a person put it there, and there it stays
  by_hand boolean not null default false,
  -- how long nobody may speak after it until its conversation is over, if it is the last of it
  quiet_after interval,
  primary key (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, conversation_id) references conversations (org_id, id)
);

create index placements_in on placements (org_id, conversation_id, message_id);

-- What a message answers as found by us: one edge at most.
-- the surest answers first, so that of very many only some are looked at
drop index replies_to;
create index replies_to on replies (org_id, parent_id, confidence desc, child_id, method);
create unique index replies_found on replies (org_id, child_id) where method in ('mention', 'inferred');

-- Who hears a whisper, its author among them; null for what everybody in the room hears.
create function hearers(message messages) returns uuid[]
  language sql stable
  return case
    when message.kind = 'whisper' then array(
      select message_audience.participant_id
      from message_audience
      where message_audience.org_id = message.org_id and message_audience.message_id = message.id
      union
      select message.author_id
      order by 1
    )
  end;

-- The one edge of each message that counts: what the platform says before what was found. It goes to something
-- said earlier, that is still there and was heard by the very same people.
create view answers with (security_invoker = true) as
select child.org_id, child.id as child_id, edge.parent_id, edge.method, edge.confidence
from messages as child
cross join lateral (
  select replies.parent_id, replies.method, replies.confidence
  from replies
  -- Asked edge by edge, through an index, whatever the planner believes about the size of the table.
  cross join lateral (
    select said.id, said.kind, said.sent_at, said.native_order, hearers(said) as hearers
    from messages as said
    where said.org_id = replies.org_id and said.id = replies.parent_id and said.erased_at is null
    limit 1
  ) as parent
  where replies.org_id = child.org_id
    and replies.child_id = child.id
    and parent.kind = child.kind
    and (parent.sent_at, parent.native_order, parent.id) < (child.sent_at, child.native_order, child.id)
    and (child.kind <> 'whisper' or parent.hearers = hearers(child))
  order by case replies.method when 'explicit' then 1 when 'thread' then 2 else 3 end
  limit 1
) as edge
where child.kind in ('message', 'whisper') and child.erased_at is null;
grant select on answers to roomlore_app;

-- What a message stands under in its exchange, as far as the reader may see both: what it answers by the platform's
-- word, else the root of its thread, else the question it was found to answer, where it addresses whoever asked and
-- is nearly certain. Other finds do not count, or a whole afternoon would become one exchange (measured: docs/why.md).
-- At most one edge a message. Single values and not existences, which might be answered by reading every edge.
-- Uses indexes: replies_from, replies_to
create view exchange_edges with (security_invoker = true) as
select edge.org_id, edge.room_id, edge.child_id, edge.parent_id, edge.method, edge.confidence
from replies as edge
where edge.parent_id is not null
  and case edge.method
    when 'explicit' then true
    when 'thread' then (
      select stated.parent_id
      from replies as stated
      where stated.org_id = edge.org_id and stated.child_id = edge.child_id and stated.method = 'explicit'
    ) is null
    when 'mention' then edge.confidence >= real '0.8'
      and (
        select position('?' in asking.body)
        from messages as asking
        where asking.org_id = edge.org_id and asking.id = edge.parent_id
      ) > 0
      and (
        select stated.parent_id
        from replies as stated
        where stated.org_id = edge.org_id
          and stated.child_id = edge.child_id
          and stated.method in ('explicit', 'thread')
          and stated.parent_id is not null
        limit 1
      ) is null
    else false
  end;
grant select on exchange_edges to roomlore_app;

-- The messages that are to have a vector: what was said in words; in a room that embeds exchanges only what does
-- not answer such a message, heard by the very same people and said earlier, which then carries it. Asked by the
-- operator: nobody else sees every edge.
create view embeddable_messages with (security_invoker = true) as
select said.org_id, said.id, said.room_id
from messages as said
join rooms on rooms.org_id = said.org_id and rooms.id = said.room_id
where said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and said.body ~ '\S'
  and (
    rooms.embedding_policy = 'message'
    or (
      select carrying.id
      from exchange_edges as edge
      join messages as carrying on carrying.org_id = edge.org_id and carrying.id = edge.parent_id
      where edge.org_id = said.org_id
        and edge.child_id = said.id
        and carrying.kind = said.kind
        and carrying.redacted_at is null
        and carrying.body ~ '\S'
        and (carrying.sent_at, carrying.native_order, carrying.id) < (said.sent_at, said.native_order, said.id)
        and (said.kind <> 'whisper' or hearers(carrying) = hearers(said))
      limit 1
    ) is null
  );
grant select on embeddable_messages to roomlore_app;

-- Untangling goes through rooms: its work tells from when to when something has changed there. What a worker
-- has taken stands apart from what has come since, so that neither is lost when it dies.
alter table work drop constraint work_stage_check;
alter table work
  add check (stage in ('embed', 'untangle')),
  -- since when it has been waiting
  add column asked_at timestamptz not null default now(),
  add column since timestamptz,
  add column until timestamptz,
  add column taken_since timestamptz,
  add column taken_until timestamptz,
  add column taking uuid,
  add check ((since is null) = (until is null)),
  add check ((taken_since is null) = (taken_until is null));

create table memories (
  org_id uuid not null references orgs,
  id uuid not null,
  kind text not null check (
    kind in (
      'technical_decision', 'process_decision', 'preference', 'fact', 'lesson', 'pattern', 'anti_pattern',
      'correction', 'process_outcome', 'context', 'observation', 'interaction', 'learning', 'insight'
    )
  ),
  content text not null check (content <> ''),
  sensitivity text not null default 'normal' check (sensitivity in ('normal', 'sensitive')),
  -- who asserted it; null where it was derived from its sources or the operator stated it
  asserted_by uuid,
  recorded_at timestamptz not null,
  primary key (org_id, id),
  foreign key (org_id, asserted_by) references participants (org_id, id)
);

create table memory_sources (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  message_id uuid not null,
  primary key (org_id, memory_id, message_id),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, message_id) references messages (org_id, id)
);

create index memory_sources_of_message on memory_sources (org_id, message_id);

create table memory_participants (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  participant_id uuid not null,
  -- who stated it, whom it is about, who else it names, through whose eyes it was seen
  role text not null check (role in ('author', 'subject', 'involved', 'perspective')),
  primary key (org_id, memory_id, participant_id, role),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create index memory_participants_of_participant on memory_participants (org_id, participant_id);

-- What an agent makes of somebody it has met.
create table relationships (
  org_id uuid not null references orgs,
  agent_id uuid not null,
  participant_id uuid not null,
  trust real not null check (trust between 0 and 1),
  updated_at timestamptz not null,
  primary key (org_id, agent_id, participant_id),
  foreign key (org_id, agent_id) references participants (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (agent_id <> participant_id)
);

create index relationships_with_participant on relationships (org_id, participant_id);

---------------------------------------------------------------------------------------------------
-- Who may see what

-- Whether the viewer may see a memory: every source, and of a sensitive one was there when each was said.
-- Without sources it is the memory of whoever asserted it. `attended` is made once all that it asks is there.
create function can_recall(memory uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held memories;
begin
  select * into held from memories where org_id = current_org() and id = memory;
  if not found then
    return false;
  end if;
  if viewer_is_operator() then
    return true;
  end if;
  if not exists (select 1 from memory_sources where org_id = current_org() and memory_id = memory) then
    return coalesce(held.asserted_by = any (own_ids()), false);
  end if;
  return not exists (
    select 1
    from memory_sources
    where org_id = current_org()
      and memory_id = memory
      and not case held.sensitivity when 'normal' then can_read(message_id) else attended(message_id) end
  );
end $$;

-- Whether the viewer may see a conversation: everything said in it, and of a sensitive one was there when it
-- was said. A conversation without messages is the operator's.
create function can_follow(conversation uuid) returns boolean
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
          where said.id = placements.message_id
            and (
              held.sensitivity = 'normal'
              or exists (
                select 1
                from stays_of_viewer as stay
                where stay.room_id = said.room_id
                  and stay.joined_at <= said.sent_at
                  and (stay.left_at is null or said.sent_at < stay.left_at)
              )
            )
          limit 1
        ) is null
    );
end $$;

-- The messages of a conversation, as far as the viewer may see it: the rule is asked once and not for each.
create function said_in(conversation uuid) returns setof uuid
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
  rows 20
as $$
begin
  if can_follow(conversation) then
    return query
      select message_id from placements where org_id = current_org() and conversation_id = conversation;
  end if;
end $$;

-- Whether nothing was said in a room before the viewer could hear it: why a conversation was opened, and how long
-- a silence is long there, rests on what was said before, and is for those who heard that.
create function heard_from_the_first(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return viewer_is_operator()
    or exists (select 1 from open_rooms_of_viewer where open_rooms_of_viewer.room_id = room)
    or exists (
      select 1
      from stays_of_viewer as stay
      where stay.room_id = room
        and stay.left_at is null
        and stay.joined_at <= coalesce(
          (
            select messages.sent_at
            from messages
            where messages.org_id = current_org() and messages.room_id = room
            order by messages.sent_at
            limit 1
          ),
          'infinity'
        )
    );
end $$;

-- The conversation a message is in, as far as the viewer may see it; otherwise null.
create function conversation_of(message uuid) returns uuid
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return (
    select conversation_id
    from placements
    where org_id = current_org() and message_id = message and can_follow(conversation_id)
  );
end $$;

do $$
declare
  name text;
begin
  foreach name in array array[
    'conversations', 'placements', 'memories', 'memory_sources', 'memory_participants', 'relationships'
  ] loop
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

create policy read on conversations for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_follow(id))
);

-- placements has no read policy: it also tells of conversations that not everybody may see. Viewers ask the
-- functions above.

create policy read on memories for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(id))
);

create policy read on memory_sources for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(memory_id))
);

create policy read on memory_participants for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or (can_recall(memory_id) and can_know(participant_id)))
);

-- What an agent thinks of somebody is the agent's own.
create policy read on relationships for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and can_know(participant_id))
  )
);

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
