-- Orgs, people, rooms and what was said: the truth that everything else is derived from.
--
-- Every key starts with org_id, so that no row can point into another org and the tables can be
-- distributed by it. Row-level security is forced on every table. Two roles matter:
--   roomlore_owner  owns tables and functions, nobody logs in as it
--   roomlore_app    what Roomlore runs as: owns nothing, cannot bypass a policy
-- Per transaction the application states for whom it reads:
--   set local roomlore.org = '<uuid>'; set local roomlore.viewer = '<participant uuid>' or 'operator'
-- Anything unset or empty means nobody.

create table orgs (
  org_id uuid primary key,
  name text not null unique check (name <> ''),
  created_at timestamptz not null default now()
);

create table participants (
  org_id uuid not null references orgs,
  id uuid not null,
  kind text not null check (kind in ('human', 'agent', 'system')),
  -- of the newest message, which not everybody may see: the operator's
  name text not null,
  -- what everybody who knows the participant may call it; later names are seen on messages
  first_name text not null,
  named_at timestamptz not null,
  primary key (org_id, id)
);

create table identities (
  org_id uuid not null references orgs,
  platform text not null check (platform <> ''),
  account_id text not null,
  persona text not null default '',
  participant_id uuid not null,
  bridged boolean not null default false,
  primary key (org_id, platform, account_id, persona),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create index identities_of_participant on identities (org_id, participant_id);

create table rooms (
  org_id uuid not null references orgs,
  id uuid not null,
  platform text not null check (platform <> ''),
  external_id text not null check (external_id <> ''),
  name text not null,
  kind text not null check (kind in ('dm', 'group_dm', 'channel', 'project', 'issue', 'ad_hoc', 'system')),
  visibility text not null check (visibility in ('open', 'members')),
  topic text not null default '',
  context_id text,
  embedding_policy text not null default 'message' check (embedding_policy in ('message', 'exchange')),
  keep_for interval,
  last_compacted_at timestamptz,
  -- time of the newest message that told who the members of a closed room are
  members_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (org_id, id),
  unique (org_id, platform, external_id)
);

create table memberships (
  org_id uuid not null references orgs,
  room_id uuid not null,
  participant_id uuid not null,
  -- '-infinity' where the platform says "member" but not since when
  joined_at timestamptz not null,
  left_at timestamptz,
  -- true where nobody stated a membership and only the participant's messages show it
  implied boolean not null default false,
  primary key (org_id, room_id, participant_id, joined_at),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (left_at is null or left_at >= joined_at)
);

create index memberships_of_participant on memberships (org_id, participant_id, room_id);

create table messages (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  external_id text not null check (external_id <> ''),
  kind text not null check (kind in ('message', 'whisper', 'system', 'context_injection')),
  author_id uuid not null,
  author_name text not null,
  author_kind text not null check (author_kind in ('human', 'agent', 'system')),
  body text not null,
  sent_at timestamptz not null,
  "precision" text not null check ("precision" in ('us', 'ms', 's', 'min')),
  native_order bigint not null default 0,
  received_at timestamptz not null,
  edited_at timestamptz,
  redacted_at timestamptz,
  synthetic_id boolean not null default false,
  conversation_id uuid,
  mentions jsonb,
  attachments jsonb,
  reactions jsonb,
  metadata jsonb,
  -- the foreign record, minus secrets
  raw jsonb,
  -- the id that a speaker stated for it, and a digest of the speaker's account: a space of its own, in which nobody
  -- takes an id that is the platform's to give
  stated_id text,
  stated_by bytea check (length(stated_by) = 32),
  -- a tsvector holds at most 1 MB: very long bodies are found by their beginning
  words tsvector not null generated always as (
    to_tsvector('english', author_name) || to_tsvector('english', left(body, 100000))
  ) stored,
  primary key (org_id, id),
  unique (org_id, room_id, external_id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  check (redacted_at is null or body = ''),
  check ((stated_id is null) = (stated_by is null))
) with (toast_tuple_target = 1024);

-- what a speaker stated once it states of one message only
create unique index messages_as_stated on messages (org_id, room_id, stated_id, stated_by)
where stated_id is not null;

-- timeline, context walk
create index messages_in_order on messages (org_id, room_id, sent_at, native_order, id);
-- "what did Ana say"
create index messages_by_author on messages (org_id, author_id, sent_at);
-- lexical search
create index messages_words on messages using gin (words);

create table message_audience (
  org_id uuid not null references orgs,
  message_id uuid not null,
  participant_id uuid not null,
  primary key (org_id, message_id, participant_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

-- Earlier texts of an edited message; the current one is on the message itself.
create table revisions (
  org_id uuid not null references orgs,
  message_id uuid not null,
  written_at timestamptz not null,
  body text not null,
  primary key (org_id, message_id, written_at),
  foreign key (org_id, message_id) references messages (org_id, id)
);

create table replies (
  -- an org by way of its room; asking twice for every row costs as much as an index
  org_id uuid not null,
  id uuid not null default gen_random_uuid(),
  room_id uuid not null,
  child_id uuid not null,
  -- null until the parent arrives
  parent_id uuid,
  parent_external_id text,
  -- 'thread' points to the root of a platform's thread, which is not a reply to a person
  method text not null check (method in ('explicit', 'thread', 'mention', 'inferred')),
  confidence real not null check (confidence between 0 and 1),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, child_id) references messages (org_id, id),
  foreign key (org_id, parent_id) references messages (org_id, id),
  check (parent_id is not null or parent_external_id is not null),
  check (parent_id <> child_id)
);

create unique index replies_stated on replies (org_id, child_id, method) where method in ('explicit', 'thread');
create index replies_to on replies (org_id, parent_id);
create index replies_awaiting_parent on replies (org_id, room_id, parent_external_id) where parent_id is null;

-- How much each participant wrote in each room, kept up as messages arrive.
create table activity (
  org_id uuid not null references orgs,
  room_id uuid not null,
  participant_id uuid not null,
  message_count bigint not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  primary key (org_id, room_id, participant_id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create table message_embeddings (
  org_id uuid not null,
  message_id uuid not null,
  room_id uuid not null,
  model text not null,
  embedding halfvec not null,
  primary key (org_id, message_id, model),
  foreign key (org_id, message_id) references messages (org_id, id)
) partition by hash (org_id);

-- Each partition has an HNSW of its own, so that one index spans few orgs.
do $$
begin
  for part in 0..3 loop
    execute format(
      'create table message_embeddings_%s partition of message_embeddings for values with (modulus 4, remainder %s)',
      part, part);
  end loop;
end $$;

-- dense search inside rooms, exact
create index message_embeddings_in_room on message_embeddings (org_id, model, room_id);
-- What is still to be done, written in the transaction that makes it necessary.
create table work (
  -- the org of the subject, in whose transaction the row is written
  org_id uuid not null,
  stage text not null check (stage in ('embed')),
  subject_id uuid not null,
  -- grows with each change of the subject: work done for an older one does not count
  version integer not null default 1,
  -- how often it was taken since anything came of it: what was taken and never finished may have killed
  -- its worker, or only have been near when one was killed
  attempts integer not null default 0,
  -- how often it ended in an error
  failures integer not null default 0,
  -- when it may be taken next; a taken row is pushed ahead by its lease
  due_at timestamptz not null default now(),
  error text,
  set_aside_at timestamptz,
  primary key (org_id, stage, subject_id)
);

create index work_due on work (stage, org_id, due_at) where set_aside_at is null;

---------------------------------------------------------------------------------------------------
-- Who is reading

create function current_org() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('roomlore.org', true), '')::uuid;

create function viewer_is_operator() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false);

create function viewer_id() returns uuid
  language sql stable parallel safe
  return nullif(nullif(current_setting('roomlore.viewer', true), ''), 'operator')::uuid;

-- The functions below run as the owner, so that one table's policy can look at another table without
-- that table's policy asking back. Each states the org itself.

create function viewer_is_agent() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1 from participants where org_id = current_org() and id = viewer_id() and kind = 'agent'
  );

create function open_room_ids() returns setof uuid
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
begin atomic
  select rooms.id
  from rooms
  where rooms.org_id = current_org()
    and rooms.visibility = 'open'
    and exists (select 1 from participants where org_id = current_org() and id = viewer_id());
end;

create function own_room_ids() returns setof uuid
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
begin atomic
  select distinct room_id from memberships where org_id = current_org() and participant_id = viewer_id();
end;

-- A set that is read once a statement, where a question per message would cost more than reading the message.
create function own_stays() returns table (room_id uuid, joined_at timestamptz, left_at timestamptz)
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
begin atomic
  select memberships.room_id, memberships.joined_at, memberships.left_at
  from memberships
  where memberships.org_id = current_org() and memberships.participant_id = viewer_id();
end;

create function is_addressed(message uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1
    from message_audience
    where org_id = current_org() and message_id = message and participant_id = viewer_id()
  );

-- Presence of somebody else that the viewer witnessed: in an open room, or together in a closed one.
create function witnessed(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
      select 1
      from memberships
      where org_id = current_org()
        and room_id = room
        and participant_id = viewer_id()
        and joined_at < coalesce(until_at, 'infinity')
        and from_at < coalesce(left_at, 'infinity')
    );

create function knows(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where org_id = current_org()
      and participant_id = participant
      and (room_id in (select open_room_ids()) or witnessed(room_id, joined_at, left_at))
  );

---------------------------------------------------------------------------------------------------
-- Who may see what

do $$
declare
  name text;
begin
  foreach name in array array[
    'orgs', 'participants', 'identities', 'rooms', 'memberships', 'messages', 'message_audience',
    'revisions', 'replies', 'activity', 'message_embeddings', 'work'
  ] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy owner on %I to roomlore_owner using (true) with check (true)', name);
    -- Changes are the operator's; the application decides on whose behalf.
    execute format($policy$
      create policy change on %I to roomlore_app
      using (org_id = (select current_org()) and (select viewer_is_operator()))
      with check (org_id = (select current_org()) and (select viewer_is_operator()))
    $policy$, name);
    -- A new org comes from ensure_org alone: its unique name would tell one org about the others.
    execute format(
      'grant %s on %I to roomlore_app',
      case name when 'orgs' then 'select' else 'select, insert, update, delete' end, name);
  end loop;
  -- partitions are reached through their parent only
  for name in select inhrelid::regclass::text from pg_inherits where inhparent = 'message_embeddings'::regclass loop
    execute format('alter table %s enable row level security', name);
    execute format('alter table %s force row level security', name);
    execute format('create policy owner on %s to roomlore_owner using (true) with check (true)', name);
  end loop;
end $$;

-- The rule for messages, stated once: as the policy, and as the view that candidate search reads,
-- because full-text and vector operators are not leakproof and would lose their indexes under a policy.
do $$
declare
  stayed constant text := $stayed$
    room_id in (select roomlore.own_room_ids())
    and exists (
      select 1
      from roomlore.own_stays() as stay
      where stay.room_id = messages.room_id
        and stay.joined_at <= messages.sent_at
        and (stay.left_at is null or messages.sent_at < stay.left_at)
    )
  $stayed$;
  rule constant text := format($rule$
    org_id = (select roomlore.current_org())
    and (
      (select roomlore.viewer_is_operator())
      or author_id = (select roomlore.viewer_id())
      or case kind
        when 'whisper' then roomlore.is_addressed(id)
        when 'context_injection' then
          roomlore.is_addressed(id)
          or (
            (select roomlore.viewer_is_agent())
            and (room_id in (select roomlore.open_room_ids()) or (%1$s))
          )
        else room_id in (select roomlore.open_room_ids()) or (%1$s)
      end
    )
  $rule$, stayed);
begin
  execute format('create policy read on messages for select to roomlore_app using (%s)', rule);
  execute format('create view readable_messages as select * from messages where %s', rule);
end $$;

-- Whether the viewer may read a message: for the policies of what is derived from messages. In PL/pgSQL,
-- because its plan is then made once a session and not once for every query that meets the policy.
create function can_read(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from readable_messages where id = message);
end $$;

create policy read on orgs for select to roomlore_app using (org_id = (select current_org()));

-- Each asks first whether the operator reads: what follows is asked row by row.

-- Whoever wrote what the viewer may read is known by it, also where a whisper is all they share.
create policy read on participants for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id = (select viewer_id())
    or knows(id)
    or exists (select 1 from messages where messages.org_id = participants.org_id and messages.author_id = participants.id)
  )
);

create policy read on identities for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or exists (
      select 1 from participants where participants.org_id = identities.org_id and participants.id = participant_id
    )
  )
);

create policy read on rooms for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id in (select open_room_ids())
    or id in (select own_room_ids())
  )
);

create policy read on memberships for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or participant_id = (select viewer_id())
    or room_id in (select open_room_ids())
    or witnessed(room_id, joined_at, left_at)
  )
);

create policy read on message_audience for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

create policy read on revisions for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

create policy read on replies for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    -- An edge still waiting for its parent is nobody's: its vanishing would tell that an invisible parent came.
    or (parent_id is not null and can_read(child_id) and can_read(parent_id))
  )
);

create policy read on message_embeddings for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

-- activity and work have no read policy: they count what not everybody may see, so they are the operator's.

-- Messages with the one each answers, as far as the reader may see both. A subquery and not a join: asked
-- message by message it always takes the index, whatever the planner believes about the tables' sizes.
create view timeline with (security_invoker = true) as
select
  messages.*,
  (
    select answered.parent_id
    from replies as answered
    where answered.org_id = messages.org_id
      and answered.child_id = messages.id
      and answered.method = 'explicit'
  ) as reply_to
from messages;
grant select on timeline to roomlore_app;

---------------------------------------------------------------------------------------------------
-- What the application may call

-- The id of the org of that name; null when it does not exist.
create function find_org(org_name text) returns uuid
  language sql stable security definer set search_path = roomlore, pg_temp
  return (select org_id from orgs where name = org_name);

-- The id of the org of that name, made when it does not exist.
create function ensure_org(org_name text, new_id uuid) returns uuid
  language plpgsql volatile security definer set search_path = roomlore, pg_temp
as $$
declare
  found_id uuid;
begin
  insert into orgs (org_id, name) values (new_id, org_name) on conflict (name) do nothing;
  select org_id into strict found_id from orgs where name = org_name;
  return found_id;
end $$;
