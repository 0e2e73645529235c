-- Memories given unasked: as messages arrive, what an agent of the room may know of the matter is put before it, once
-- until the room is compacted.

alter table rooms
  -- whether its agents are given what they may know
  add column is_injecting boolean not null default true;

alter table messages
  -- injected for those alone whom it is addressed to, and not for every agent in the room
  add column is_directed boolean not null default false,
  add check (not is_directed or kind = 'context_injection');

-- What was given to whom, and as which message. A message gives one memory, and goes with it.
create table injections (
  org_id uuid not null references orgs,
  message_id uuid not null,
  room_id uuid not null,
  agent_id uuid not null,
  memory_id uuid not null,
  -- the message that gave occasion
  trigger_id uuid not null,
  injected_at timestamptz not null,
  primary key (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, agent_id) references participants (org_id, id),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, trigger_id) references messages (org_id, id)
);

create index injections_given on injections (org_id, room_id, agent_id, injected_at desc);
create index injections_of_memory on injections (org_id, memory_id);
create index injections_to on injections (org_id, agent_id);
create index injections_by_trigger on injections (org_id, trigger_id);

alter table injections enable row level security;
alter table injections force row level security;
grant select, insert, update, delete on injections to roomlore_app;
create policy owner on injections to roomlore_owner using (true) with check (true);
create policy change on injections to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

-- Whether what was given by a message may still be shown to the viewer: the memory stands, and the viewer may see it.
create function still_given(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from injections
    join memories on memories.org_id = injections.org_id and memories.id = injections.memory_id
    where injections.org_id = current_org()
      and injections.message_id = message
      and memories.status = 'active'
      and can_recall(memories.id)
  );
end $$;

-- The agent's own, as long as it may see what it was given.
create policy read on injections for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and still_given(message_id))
  )
);

-- The rule for messages, with what is directed: in the policy, and in the view that candidate search reads.
create function with_directed(rule text) returns text
  language plpgsql immutable
as $$
declare
  to_agents constant text := $re$\((messages\.)?kind = 'context_injection'::text\)$re$;
  to_some constant text := $re$\((messages\.)?kind = ANY \(ARRAY\['whisper'::text, 'context_injection'::text\]\)\)$re$;
begin
  if regexp_count(rule, to_agents) <> 1 or regexp_count(rule, to_some) <> 1 then
    raise exception 'the rule for messages is not the one expected';
  end if;
  return regexp_replace(
    regexp_replace(rule, to_agents, '(\& AND (NOT messages.is_directed))'),
    to_some, '(\& AND ((NOT messages.is_directed) OR roomlore.still_given(messages.id)))'
  );
end $$;

do $$
declare
  rule text;
begin
  select pg_get_expr(polqual, polrelid) into rule
  from pg_policy
  where polrelid = 'messages'::regclass and polname = 'read';
  execute format('alter policy read on messages using (%s)', with_directed(rule));
  execute format(
    'create or replace view readable_messages as %s',
    with_directed(rtrim(pg_get_viewdef('readable_messages'::regclass), ';'))
  );
end $$;

drop function with_directed(text);

-- A new message for whose agents something may be known.
alter table work drop constraint work_stage_check;
alter table work add constraint work_stage_check check (stage in ('embed', 'untangle', 'interact', 'inject'));

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
