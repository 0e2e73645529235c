-- The schema of Roomlore: the final form of every table, policy and function. It runs once, on an empty database, in
-- one transaction, as a login that may create roles. CONTRIBUTING.md says how to change it; docs/schema.md, which `make
-- schema` writes, draws its tables.
--
-- Three rules apply to all tables.
--   1. Every key starts with org_id. So no row can reference another org, and tables can be distributed by org.
--   2. Row-level security is forced on every table. The last chapter does this in one loop, so no table is left out.
--      The loop also makes the policies `owner` and `change`: only the operator of an org changes its rows. All other
--      policies stand in the chapter of their table, and each table is followed by its indexes and grants.
--   3. A viewer sees a row only by a policy named `read`. A table without one is the operator's.
--
-- Settings of a transaction say who reads. Unset or empty means nobody.
--   roomlore.org     the org
--   roomlore.viewer  the id of a participant, or 'operator'
--   roomlore.destination   where the answer will be posted: a room or a whisper; empty for nowhere
--   roomlore.apply_restrictions  'on' if privacy requests apply
--
-- Chapters: roles; who reads; orgs and people; rooms; messages; privacy requests; who may see people, rooms and
-- messages; replies; conversations; memories; agents; vectors; search; language models; access and audit; erasure;
-- work and changes; what holds for every table.

---------------------------------------------------------------------------------------------------
-- Roles, extensions, schema

-- roomlore_owner owns tables and functions. Nobody logs in as it.
-- roomlore_app is what Roomlore runs as. It owns nothing and cannot bypass a policy.
-- Another migration may create the role at the same time: the lock holds for one database, roles belong to the server.
do $$
declare
  name text;
begin
  foreach name in array array['roomlore_owner', 'roomlore_app'] loop
    if not exists (select 1 from pg_roles where rolname = name) then
      begin
        execute format('create role %I nologin', name);
      exception when duplicate_object or unique_violation then
        null;
      end;
    end if;
  end loop;
  execute format('grant roomlore_owner, roomlore_app to %I', current_user);
end $$;

create extension if not exists vector;
do $$
begin
  -- It makes large orgs faster. Not every server has it.
  if exists (select 1 from pg_available_extensions where name = 'btree_gin') then
    create extension if not exists btree_gin;
  end if;
end $$;

create schema if not exists roomlore authorization roomlore_owner;

-- The rest of the transaction runs as the owner.
set local role roomlore_owner;
set local search_path = roomlore, public;

grant usage on schema roomlore to roomlore_app;
alter default privileges for role roomlore_owner revoke execute on functions from public;

-- The functions below name settings of pgvector, which exist only once it is loaded.
select '[1]'::vector;

create table migrations (
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default now()
);

grant select on migrations to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Who reads: what the settings of a transaction say

create function current_org() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('roomlore.org', true), '')::uuid;

-- Null for the operator and for nobody. The org's own id is the tombstone author (see `messages`), which nobody may
-- read as: it would see every tombstone in every room.
create function viewer_id() returns uuid
  language sql stable parallel safe
  return nullif(
    nullif(nullif(current_setting('roomlore.viewer', true), ''), 'operator')::uuid,
    current_org()
  );

-- Null if no answer will be posted.
create function destination_id() returns uuid
  language sql stable parallel safe
  return nullif(current_setting('roomlore.destination', true), '')::uuid;

-- Whether the operator reads, with or without a destination.
create function operator_reads() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false);

-- Whether the operator reads for an answer that will be posted.
create function operator_reads_for_destination() returns boolean
  language sql stable parallel safe
  return operator_reads() and destination_id() is not null;

-- Whether the operator reads everything: no answer will be posted.
create function viewer_is_operator() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false)
    and nullif(current_setting('roomlore.destination', true), '') is null;

-- Whether the transaction has no viewer, as the transactions of workers.
create function has_no_viewer() returns boolean
  language sql stable parallel safe
  return nullif(current_setting('roomlore.viewer', true), '') is null;

-- Whether privacy requests apply: in search, answers, context and memories, but not in the timeline of a room.
create function applies_restrictions() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.apply_restrictions', true), '') = 'on';

---------------------------------------------------------------------------------------------------
-- Orgs and people

create table orgs (
  org_id uuid primary key,
  name text not null unique check (name <> ''),
  created_at timestamptz not null default now(),
  -- what it does with privacy requests: apply the unambiguous ones, propose all, or detect none
  privacy_mode text not null default 'on' check (privacy_mode in ('on', 'propose', 'off'))
);

-- Only `ensure_org` adds an org: its unique name would tell one org about the others.
grant select on orgs to roomlore_app;
grant update (privacy_mode) on orgs to roomlore_app;

create policy read on orgs for select to roomlore_app using (org_id = (select current_org()));

create table participants (
  org_id uuid not null references orgs,
  id uuid not null,
  kind text not null check (kind in ('human', 'agent', 'system')),
  -- The name on the newest message. Not everybody may see that message, so only the operator sees this name.
  name text not null,
  -- The name for everybody who knows the participant, from a member list or the oldest message, whichever arrives
  -- first. Later names appear on messages.
  first_name text not null,
  named_at timestamptz not null,
  first_named_at timestamptz not null,
  primary key (org_id, id)
);

grant select, insert, update, delete on participants to roomlore_app;

-- The accounts of a participant on the platforms. One bot account may have several personas.
create table platform_accounts (
  org_id uuid not null references orgs,
  platform text not null check (platform <> ''),
  account_id text not null,
  persona text not null default '',
  participant_id uuid not null,
  bridged boolean not null default false,
  primary key (org_id, platform, account_id, persona),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create index platform_accounts_of_participant on platform_accounts (org_id, participant_id);

grant select, insert, update, delete on platform_accounts to roomlore_app;

-- Participants who are accounts of one person and read as one. A merge changes no other row, so a split only deletes
-- it.
create table participant_merges (
  org_id uuid not null references orgs,
  participant_id uuid not null,
  -- shared by the accounts of one person; never the id of a participant, so it reveals nobody
  person_id uuid not null,
  primary key (org_id, participant_id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  -- the tombstone author is no account of anybody
  check (participant_id <> org_id)
);

create index participant_merges_of_person on participant_merges (org_id, person_id);

grant select, insert, update, delete on participant_merges to roomlore_app;

-- The id of the org of that name; null if there is none.
create function find_org(org_name text) returns uuid
  language sql stable security definer set search_path = roomlore, pg_temp
  return (select org_id from orgs where name = org_name);

-- The id of the org of that name, made if there is none.
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

-- Returns all orgs. Workers then work in each org for its operator.
create function org_ids() returns setof uuid
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select orgs.org_id from orgs where has_no_viewer() order by orgs.org_id;
end;

---------------------------------------------------------------------------------------------------
-- Rooms

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
  embedding_policy text not null default 'message' check (embedding_policy in ('message', 'thread')),
  -- the retention period; null means forever
  retention_period interval check (retention_period > interval '0'),
  context_reset_at timestamptz,
  -- the time of the newest message that listed the members of a closed room
  member_list_at timestamptz,
  created_at timestamptz not null default now(),
  -- whether memories are injected for its agents
  is_injection_enabled boolean not null default true,
  -- the server, workspace or network
  workspace text not null default '',
  -- whether its platform ever stated that it is for members only; later statements of this change nothing
  is_stated_closed boolean not null default false,
  -- whether it was stated to be open since then; then a later "members only" closes it again
  is_stated_open boolean not null default false,
  -- whether an operator named it; then names from its platform are ignored
  is_named boolean not null default false,
  -- A shorter retention period starts at `retention_starts_at` and can be undone until then. Before that, the old
  -- period applies; null means forever.
  previous_retention_period interval check (previous_retention_period > interval '0'),
  retention_starts_at timestamptz,
  primary key (org_id, id),
  unique (org_id, platform, external_id),
  check (retention_period is not null or retention_starts_at is null),
  constraint rooms_direct_closed check (kind not in ('dm', 'group_dm') or visibility = 'members')
);

grant select, insert, update, delete on rooms to roomlore_app;

create table memberships (
  org_id uuid not null references orgs,
  room_id uuid not null,
  participant_id uuid not null,
  -- '-infinity' if the platform gives no date
  joined_at timestamptz not null,
  left_at timestamptz,
  -- true if only the participant's messages show the membership
  implied boolean not null default false,
  -- an operator stated it: member lists of the platform do not change it
  by_operator boolean not null default false,
  primary key (org_id, room_id, participant_id, joined_at),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (left_at is null or left_at >= joined_at)
);

create index memberships_of_participant on memberships (org_id, participant_id, room_id);

grant select, insert, update, delete on memberships to roomlore_app;

-- The name of a room among all rooms: workspaces share names. The query `find_rooms` uses it too.
create function called_room(workspace text, name text) returns text
  language sql immutable parallel safe
  return case when workspace = '' or name = '' then name else workspace || '/' || name end;

-- Whether an operator decided the membership of a person in a room, by any of their accounts.
create function operator_decided(room uuid, participant uuid) returns boolean
  language sql stable parallel safe set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where memberships.org_id = current_org()
      and memberships.room_id = room
      and memberships.by_operator
      and memberships.participant_id in (
        select participant
        union all
        select other.participant_id
        from participant_merges as mine
        join participant_merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
        where mine.org_id = current_org() and mine.participant_id = participant
      )
  );

---------------------------------------------------------------------------------------------------
-- Messages

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
  sequence bigint not null default 0,
  received_at timestamptz not null,
  edited_at timestamptz,
  redacted_at timestamptz,
  synthetic_id boolean not null default false,
  mentions jsonb,
  attachments jsonb,
  reactions jsonb,
  metadata jsonb,
  -- the platform's record, minus secrets
  raw jsonb,
  -- The id that the author gave, and a digest of the author's account. These ids are separate from the platform's.
  stated_id text,
  stated_by bytea check (length(stated_by) = 32),
  -- A tsvector holds at most 1 MB: very long bodies are found by their beginning.
  words tsvector not null generated always as (
    to_tsvector('english', author_name) || to_tsvector('english', left(body, 100000))
  ) stored,
  -- A tombstone: an erased message keeps its place in the room without author, text or name. Its author is the
  -- participant with the id of the org.
  erased_at timestamptz,
  -- injected for its recipients alone, not for every agent in the room
  is_directed boolean not null default false,
  -- whether the message model reads a question in it; false until it is read
  asks boolean not null default false,
  primary key (org_id, id),
  unique (org_id, room_id, external_id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  check (redacted_at is null or body = '' and not asks),
  check ((stated_id is null) = (stated_by is null)),
  check (erased_at is null or (redacted_at is not null and author_id = org_id and author_name = '')),
  check (not is_directed or kind = 'context_injection')
) with (toast_tuple_target = 1024);

-- An author uses a client id for one message only.
create unique index messages_as_stated on messages (org_id, room_id, stated_id, stated_by)
where stated_id is not null;
create index messages_in_order on messages (org_id, room_id, sent_at, sequence, id);
create index messages_by_author on messages (org_id, author_id, sent_at);
-- Messages that arrive again are compared with tombstones.
create index messages_holes on messages (org_id, room_id, external_id) where erased_at is not null;
-- whether anything was removed in a room, for lines of raw logs
create index messages_removed on messages (org_id, room_id) where redacted_at is not null or erased_at is not null;

-- Lexical search. With org and room in the index (btree_gin), a frequent word in one room is found as fast as in a
-- small database. The frequency of a word is estimated from one message in 256. A table of word counts would have to be
-- updated on erasure, and would include messages that not every viewer may read.
do $$
declare
  place constant text := case
    when exists (select 1 from pg_extension where extname = 'btree_gin') then 'org_id, room_id, '
    else ''
  end;
begin
  execute format('create index messages_words on messages using gin (%swords)', place);
  execute format(
    'create index messages_sampled on messages using gin (%swords) where (uuid_hash(id) & 255) = 0', place
  );
end $$;

grant select, insert, update, delete on messages to roomlore_app;

-- The recipients of a whisper or an injected memory.
create table message_audience (
  org_id uuid not null references orgs,
  message_id uuid not null,
  participant_id uuid not null,
  primary key (org_id, message_id, participant_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

grant select, insert, update, delete on message_audience to roomlore_app;

-- Earlier texts of an edited message.
create table message_revisions (
  org_id uuid not null references orgs,
  message_id uuid not null,
  written_at timestamptz not null,
  body text not null,
  primary key (org_id, message_id, written_at),
  foreign key (org_id, message_id) references messages (org_id, id)
);

grant select, insert, update, delete on message_revisions to roomlore_app;

-- Message counts of each participant in each room, updated as messages arrive. For the operator: they count what not
-- everybody may see.
create table room_activity (
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

grant select, insert, update, delete on room_activity to roomlore_app;

-- The readers of a whisper, its author included. Null if the whole room may read a message.
create function recipients(message messages) returns uuid[]
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

---------------------------------------------------------------------------------------------------
-- Privacy requests ("privacy_requests")

create table privacy_requests (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  -- The message that states the request; its text is stored nowhere else. Null for a tombstone: the messages of others
  -- that it restricts stay restricted.
  message_id uuid,
  author_id uuid,
  kind text not null check (kind in ('forget', 'confidential', 'restrict')),
  -- A proposed request hides nothing until a person decides.
  status text not null default 'active' check (status in ('proposed', 'active', 'dismissed')),
  -- 'rules' or the name of a language model
  detected_by text not null,
  detected_at timestamptz not null,
  decided_at timestamptz,
  -- null for the operator
  decided_by uuid,
  -- Its scope, for comparison with later messages: ids of messages, digests of values, names of topics. No text of a
  -- message.
  target_ids uuid[] not null default '{}',
  identifiers text[] not null default '{}',
  own_identifiers text[] not null default '{}',
  -- from whom the messages are hidden; null for everybody except the exempt
  from_ids uuid[],
  exempt_ids uuid[] not null default '{}',
  is_ongoing boolean not null default false,
  -- how far back a restriction reaches; null for everything
  since timestamptz,
  allowed_topics text[] not null default '{}',
  denied_topics text[] not null default '{}',
  -- whose messages a restriction covers; null for all
  covered_author_ids uuid[],
  -- The parsed spans: positions in the text of the message, and a digest of it. Null if the request names nobody who is
  -- known; then it is parsed again until it does.
  spans jsonb,
  -- why a person has to decide; empty if it is unambiguous
  review_reason text not null default '',
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  unique (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  foreign key (org_id, decided_by) references participants (org_id, id),
  check (spans is not null or message_id is null or detected_by = 'rules'),
  check ((message_id is null) = (author_id is null)),
  check (
    message_id is not null
    or (kind = 'forget' and spans is null and (target_ids, identifiers, own_identifiers) = ('{}', '{}', '{}'))
  ),
  -- Only people dismiss requests.
  constraint privacy_requests_dismissed_check check (status <> 'dismissed' or decided_at is not null)
);

create index privacy_requests_of_room on privacy_requests (org_id, room_id, message_id);
create index privacy_requests_of_author on privacy_requests (org_id, author_id);
create index privacy_requests_gone on privacy_requests (org_id) where message_id is null;
create index privacy_requests_from_end on privacy_requests (org_id, id_from_end);

grant select, insert, update, delete on privacy_requests to roomlore_app;

-- Restricted messages, by request, and from whom. Only the operator reads it: a row reveals that there is something.
create table restricted_messages (
  org_id uuid not null references orgs,
  message_id uuid not null,
  request_id uuid not null,
  from_ids uuid[],
  exempt_ids uuid[] not null default '{}',
  primary key (org_id, message_id, request_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, request_id) references privacy_requests (org_id, id)
);

create index restricted_messages_by_request on restricted_messages (org_id, request_id);

grant select, insert, update, delete on restricted_messages to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Who may see people, rooms and messages
--
-- Many functions and views here run as the owner, so that a policy can read another table without that table's policy.
-- Each checks the org itself. Those in PL/pgSQL are planned once a session, not with every query.

-- Persons

-- The viewer and every other account of the same person. Empty for the operator and for nobody.
create function own_ids() returns uuid[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return case
    when viewer_id() is null then '{}'::uuid[]
    else array(
      select viewer_id()
      union
      select other.participant_id
      from participant_merges as mine
      join participant_merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
      where mine.org_id = current_org() and mine.participant_id = viewer_id()
    )
  end;

-- Whether the viewer is an agent. A person is an agent if all of their accounts are.
create function viewer_is_agent() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return coalesce(
    (select bool_and(kind = 'agent') from participants where org_id = current_org() and id = any (own_ids())),
    false
  );

-- Whether the viewer belongs to the org.
create function viewer_is_participant() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1 from participants where participants.org_id = current_org() and participants.id = any (own_ids())
  );

-- The persons of accounts, each once, as far as the caller may know.
create function persons_of(accounts uuid[]) returns uuid[]
  language sql stable parallel safe set search_path = roomlore, pg_temp
  return array(
    select distinct coalesce(participant_merges.person_id, one.id)
    from unnest(accounts) as one (id)
    left join participant_merges on participant_merges.org_id = current_org() and participant_merges.participant_id = one.id
  );

-- The destination: the room or whisper where the answer will be posted, and who reads there. With a destination, a
-- transaction sees only what every reader of the destination may read. An operator with a destination sees what all
-- these readers together may see.

create type destination_bounds as (
  id uuid,
  -- its room
  room_id uuid,
  -- The readers of the destination, each person once. Null if they cannot be listed: the whole org, or a closed room
  -- whose members are not all known. Empty if it has no reader; then nothing may be posted.
  people uuid[],
  -- The rooms in which all readers were members at the same time, and when. If not all readers can be listed: only the
  -- room itself, and the times of its known members.
  rooms uuid[],
  spans tstzmultirange[]
);

-- Whether all current members of a closed room are known: they were listed, or an operator stated each of them, or the
-- room has two members and both are known.
create function members_are_known(room uuid, known integer) returns boolean
  language plpgsql stable parallel safe set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from rooms
    where rooms.org_id = current_org()
      and rooms.id = room
      and (rooms.member_list_at is not null or (rooms.kind = 'dm' and known >= 2))
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

-- The readers of a destination, and when all of them were members of which rooms. No reader if no member of a closed
-- room is known, or if the viewer is no longer a member: the viewer must not learn who joined since.
create function find_destination(destination uuid) returns destination_bounds
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held destination_bounds := row(destination, null::uuid, '{}'::uuid[], '{}'::uuid[], '{}'::tstzmultirange[]);
  accounts uuid[];
  is_whole boolean := true;
begin
  select rooms.id, case when rooms.visibility = 'open' then null else held.people end
  into held.room_id, held.people
  from rooms
  where rooms.org_id = current_org() and rooms.id = destination;
  if found and held.people is null then
    return held;
  end if;
  if found then
    accounts := array(
      select memberships.participant_id
      from memberships
      where memberships.org_id = current_org()
        and memberships.room_id = destination
        and (memberships.left_at is null or memberships.left_at > now())
    );
    is_whole := members_are_known(destination, cardinality(persons_of(accounts)));
  else
    held.people := '{}';
    select messages.room_id, recipients.ids
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
    ) as recipients
    where messages.org_id = current_org() and messages.id = destination and messages.kind = 'whisper';
  end if;
  held.people := persons_of(accounts);
  if held.people = '{}' or not (operator_reads() or held.people && persons_of(own_ids())) then
    return row(destination, null::uuid, '{}'::uuid[], '{}'::uuid[], '{}'::tstzmultirange[]);
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
        select participant_merges.participant_id
        from participant_merges
        where participant_merges.org_id = current_org() and participant_merges.person_id = person.id
      ) as account
      join memberships
        on memberships.org_id = current_org()
        and memberships.participant_id = account.participant_id
        and (is_whole or memberships.room_id = destination)
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

-- Stores the readers of the destination of a transaction; returns whether there is any.
create function store_destination() returns boolean
  language plpgsql volatile security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant destination_bounds := find_destination(destination_id());
begin
  perform set_config('roomlore.destination_bounds', held::text, true);
  return held.people is null or held.people <> '{}';
end $$;

-- The destination of the transaction: as stored, or else computed now.
create function bounds_of_destination() returns destination_bounds
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant destination_bounds := nullif(current_setting('roomlore.destination_bounds', true), '')::destination_bounds;
begin
  if held.id = destination_id() then
    return held;
  end if;
  return find_destination(destination_id());
end $$;

-- The fields of the destination, each evaluated once a statement.
create function destination_has_readers() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).people is null or (held).people <> '{}' from bounds_of_destination() as held);

create function destination_room() returns uuid
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).room_id from bounds_of_destination() as held);

create function destination_rooms() returns uuid[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).rooms from bounds_of_destination() as held);

create function destination_memberships() returns tstzmultirange[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return (select (held).spans from bounds_of_destination() as held);

-- Whether all readers of the destination may know of a membership: in an open room, or while all of them were members.
create function destination_can_see_participant(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  held constant destination_bounds := bounds_of_destination();
begin
  return destination_has_readers()
    and (
      exists (select 1 from rooms where rooms.org_id = current_org() and rooms.id = room and rooms.visibility = 'open')
      or coalesce(held.spans[array_position(held.rooms, room)] && tstzrange(from_at, until_at), false)
    );
end $$;

-- Whether the asserter is the only reader of the destination.
create function is_destination_of(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return participant is not null
    and coalesce((select (held).people = persons_of(array[participant]) from bounds_of_destination() as held), false);

-- Rooms

-- Views and not functions, because they are planned with the query, as one index lookup.

-- The open rooms, if the viewer belongs to the org. An operator with a destination sees which rooms are open.
create view open_rooms_of_viewer with (security_barrier = true) as
select rooms.id as room_id
from rooms
where rooms.org_id = (select current_org())
  and rooms.visibility = 'open'
  -- a single value, evaluated once
  and (
    (select operator_reads_for_destination())
    or (select true from participants where participants.org_id = current_org() and participants.id = viewer_id())
  );

grant select on open_rooms_of_viewer to roomlore_app;

-- The viewer's memberships.
create view memberships_of_viewer with (security_barrier = true) as
select memberships.room_id, memberships.joined_at, memberships.left_at
from memberships
where memberships.org_id = (select current_org()) and memberships.participant_id = any ((select own_ids())::uuid[]);

grant select on memberships_of_viewer to roomlore_app;

-- Whether a room is open. A function: it is needed only with a destination, and in the policy every read would plan it.
create function is_public_room(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1 from rooms where rooms.org_id = current_org() and rooms.id = room and rooms.visibility = 'open'
  );
end $$;

-- The check for the operator comes first: the others run for each row.
create policy read on rooms for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id in (select room_id from open_rooms_of_viewer)
    or id in (select room_id from memberships_of_viewer)
  )
);

create policy destination_of_operator on rooms for select to roomlore_app using (
  org_id = (select current_org()) and (select operator_reads_for_destination())
);

create policy destination_readers on rooms as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select destination_id()) is null
    or (select destination_has_readers())
      and (visibility = 'open' or id = (select destination_room()) or id = any ((select destination_rooms())::uuid[]))
  )
);

-- Whether the viewer was in a closed room together with somebody.
create function shared_membership(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
      select 1
      from memberships
      where org_id = current_org()
        and room_id = room
        and participant_id = any (own_ids())
        and joined_at < coalesce(until_at, 'infinity')
        and from_at < coalesce(left_at, 'infinity')
    );

create policy read on memberships for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or participant_id = any ((select own_ids())::uuid[])
    or room_id in (select open_rooms_of_viewer.room_id from open_rooms_of_viewer)
    or shared_membership(room_id, joined_at, left_at)
  )
);

create policy destination_of_operator on memberships for select to roomlore_app using (
  org_id = (select current_org()) and (select operator_reads_for_destination())
);

create policy destination_readers on memberships as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and ((select destination_id()) is null or destination_can_see_participant(room_id, joined_at, left_at))
);

-- Messages

-- Messages for the viewer as a recipient.
create view addressed_to_viewer with (security_barrier = true) as
select message_audience.message_id
from message_audience
where message_audience.org_id = (select current_org())
  and message_audience.participant_id = any ((select own_ids())::uuid[]);

grant select on addressed_to_viewer to roomlore_app;

-- Whether each reader of the destination wrote a message or is one of its recipients. False if the viewer may not read
-- it.
create function visible_at_destination(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  people constant uuid[] := (bounds_of_destination()).people;
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

-- Whether anything is restricted in the org. Evaluated once; if false, the check of each message is skipped.
create function org_has_restrictions() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (select 1 from restricted_messages where restricted_messages.org_id = current_org());

-- Whether a message that the viewer may read is restricted for any reader of the destination.
create function restricted_at_destination(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  people constant uuid[] := (bounds_of_destination()).people;
begin
  return exists (
      select 1
      from restricted_messages
      where restricted_messages.org_id = current_org()
        and restricted_messages.message_id = message
        and case
          when people is null then true
          when restricted_messages.from_ids is null then not people <@ persons_of(restricted_messages.exempt_ids)
          else people && persons_of(restricted_messages.from_ids)
        end
    )
    and exists (select 1 from messages_anywhere as said where said.id = message);
end $$;

-- Whether the memory that a message injects may still be shown to the viewer: it is active, and the viewer may see it.
create function is_delivered(message uuid) returns boolean
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
      and can_see_memory(memories.id)
  );
end $$;

-- The rules for messages. Each is written once, and used in a policy and in a view that candidate search reads, because
-- full-text and vector operators are not leakproof and would lose their indexes under a policy. First: a viewer reads
-- open rooms, closed rooms during a membership, what is addressed to them, and what they wrote. The most likely reason
-- comes first. Second: with a destination the viewer reads no more than all who read there: in an open room what
-- everybody may read; elsewhere what was sent while all were members, and whispers to each of them.
do $$
declare
  rule constant text := $rule$
    org_id = (select roomlore.current_org())
    and (
      (select roomlore.operator_reads())
      or (
          kind in ('message', 'system')
          or kind = 'context_injection' and not is_directed and (select roomlore.viewer_is_agent())
        )
        and (
          exists (select 1 from roomlore.open_rooms_of_viewer as open where open.room_id = messages.room_id)
          or exists (
            select 1
            from roomlore.memberships_of_viewer as stay
            where stay.room_id = messages.room_id
              and stay.joined_at <= messages.sent_at
              and (stay.left_at is null or messages.sent_at < stay.left_at)
          )
        )
      or kind in ('whisper', 'context_injection')
        and (not is_directed or roomlore.is_delivered(id))
        -- A single value, not `exists`, which might read everything that is addressed to the viewer.
        and (
          select true
          from roomlore.addressed_to_viewer as addressed
          where addressed.message_id = messages.id
          limit 1
        )
      or author_id = any ((select roomlore.own_ids())::uuid[])
    )
  $rule$;
  destination_rule constant text := $rule$
    (select roomlore.destination_id()) is null
    or (select roomlore.destination_has_readers())
      and (
        messages.kind in ('message', 'system')
          and (
            roomlore.is_public_room(messages.room_id)
            or ((select roomlore.destination_memberships())::tstzmultirange[])[
              array_position((select roomlore.destination_rooms())::uuid[], messages.room_id)
            ] @> messages.sent_at
          )
        or messages.kind = 'context_injection' and messages.is_directed and roomlore.is_delivered(messages.id)
        or messages.kind in ('whisper', 'context_injection')
          and not messages.is_directed
          and roomlore.visible_at_destination(messages.id)
      )
      and not (
        (select roomlore.applies_restrictions())
        and (select roomlore.org_has_restrictions())
        and roomlore.restricted_at_destination(messages.id)
      )
  $rule$;
begin
  execute format('create policy read on messages for select to roomlore_app using (%s)', rule);
  execute format($policy$
    create policy destination_readers on messages as restrictive for select to roomlore_app
    using (org_id = (select roomlore.current_org()) and (%s))
  $policy$, destination_rule);
  -- what the viewer may read, without regard to the destination
  execute format('create view messages_anywhere as select * from messages where %s', rule);
  -- what the viewer may read at the destination
  execute format('create view readable_messages as select * from messages where %s and (%s)', rule, destination_rule);
end $$;

-- Restricted messages that the viewer could read otherwise, and nothing else: a restriction reveals that there is a
-- message.
create view restricted_from_viewer with (security_barrier = true) as
select restricted_messages.message_id
from restricted_messages
where restricted_messages.org_id = (select current_org())
  and case
    when restricted_messages.from_ids is null then not restricted_messages.exempt_ids && (select own_ids())::uuid[]
    else restricted_messages.from_ids && (select own_ids())::uuid[]
  end
  and (select said.id from readable_messages as said where said.id = restricted_messages.message_id limit 1) is not null;

grant select on restricted_from_viewer to roomlore_app;

-- Whether a message is restricted for the viewer. A function, because it is needed only if anything is restricted;
-- within the rule every read would plan it.
create function is_restricted(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from restricted_from_viewer where message_id = message);
end $$;

-- A restrictive policy limits the rows of all other policies.
create policy not_restricted on messages as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select applies_restrictions()) or not (select org_has_restrictions()) or not is_restricted(messages.id))
);

-- The messages that the viewer may read and that are not restricted. An operator sees all if requests do not apply.
create view recallable_messages as
select said.*
from readable_messages as said
where not (select exists (select 1 from restricted_messages where restricted_messages.org_id = current_org()))
  or (select operator_reads() and not applies_restrictions())
  -- A single value, not `exists`, which might read everything that is restricted.
  or (select true from restricted_from_viewer as kept where kept.message_id = said.id limit 1) is null;

-- Whether the viewer may read a message, for the policies of derived rows.
create function can_see_message(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from readable_messages where id = message);
end $$;

create policy read on message_audience for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_message(message_id))
);

create policy read on message_revisions for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_message(message_id))
);

-- The author of a request sees it.
create policy read on privacy_requests for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or author_id = any ((select own_ids())::uuid[]))
);

-- People

-- Whether the viewer knows somebody from a room. With a destination, all its readers must know them too.
create function can_know_participant(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where org_id = current_org()
      and participant_id = participant
      and (
        room_id in (select open_rooms_of_viewer.room_id from open_rooms_of_viewer)
        or operator_reads_for_destination()
        or shared_membership(room_id, joined_at, left_at)
      )
      and (destination_id() is null or destination_can_see_participant(room_id, joined_at, left_at))
  );

-- Whether the viewer may know of a participant, for the policies of rows that name participants.
create function can_see_participant(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return participant = any (own_ids())
    or can_know_participant(participant)
    or exists (select 1 from readable_messages where author_id = participant);
end $$;

-- Whether the viewer may know of a participant and of another account of the same person.
create function can_see_another_account(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return can_see_participant(participant)
    and exists (
      select 1
      from participant_merges as this
      join participant_merges as other on other.org_id = this.org_id and other.person_id = this.person_id
      where this.org_id = current_org()
        and this.participant_id = participant
        and other.participant_id <> participant
        and can_see_participant(other.participant_id)
    );
end $$;

-- A viewer knows the authors of messages that they may read, also of whispers.
create policy read on participants for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id = any ((select own_ids())::uuid[])
    or can_know_participant(id)
    or exists (
      select 1 from messages where messages.org_id = participants.org_id and messages.author_id = participants.id
    )
  )
);

create policy read on platform_accounts for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or exists (
      select 1 from participants where participants.org_id = platform_accounts.org_id and participants.id = participant_id
    )
  )
);

-- For viewers who may know of both accounts.
create policy read on participant_merges for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or can_see_another_account(participant_id))
);

-- Participants by the names that the reader may use: the operator the current name, a viewer the name on the newest
-- message that they may read, or the first name. A hidden name cannot be guessed.
create view known_participants with (security_invoker = true) as
select
  participants.org_id, participants.id, participants.kind,
  case
    when (select viewer_is_operator()) then participants.name
    else coalesce(
      (
        select messages.author_name
        from messages
        where messages.org_id = participants.org_id and messages.author_id = participants.id
        order by messages.sent_at desc, messages.sequence desc, messages.id desc
        limit 1
      ),
      participants.first_name
    )
  end as name
from participants
-- not the tombstone author
where participants.id <> participants.org_id;

grant select on known_participants to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Replies

create table replies (
  -- no reference to orgs: the room has one, and each check costs as much as an index
  org_id uuid not null,
  id uuid not null default gen_random_uuid(),
  room_id uuid not null,
  child_id uuid not null,
  -- null until the parent arrives
  parent_id uuid,
  parent_external_id text,
  -- 'thread' points to the root of the platform's thread, which is not a reply to a person
  method text not null check (method in ('explicit', 'thread', 'mention', 'inferred')),
  confidence real not null check (confidence between 0 and 1),
  -- that the child answers the parent; null if the platform states the reply, the reply is not confident enough, or the
  -- parent is no question of somebody else
  answer_probability real check (answer_probability between 0 and 1),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, child_id) references messages (org_id, id),
  foreign key (org_id, parent_id) references messages (org_id, id),
  check (parent_id is not null or parent_external_id is not null),
  check (parent_id <> child_id)
);

create unique index replies_stated on replies (org_id, child_id, method) where method in ('explicit', 'thread');
-- At most one inferred reply for each message.
create unique index replies_found on replies (org_id, child_id) where method in ('mention', 'inferred');
create index replies_from on replies (org_id, child_id);
-- Of very many replies only the most confident are read.
create index replies_to on replies (org_id, parent_id, confidence desc, child_id, method);
create index replies_awaiting_parent on replies (org_id, room_id, parent_external_id) where parent_id is null;

grant select, insert, update, delete on replies to roomlore_app;

-- Both ends are checked at once, under the policy of messages. A reply that waits for its parent is hidden: its end
-- would reveal that an invisible parent arrived.
create policy read on replies for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or parent_id is not null
      and (
        select count(*)
        from messages
        where messages.org_id = replies.org_id and messages.id = any (array[replies.child_id, replies.parent_id])
      ) = 2
  )
);

-- The effective reply of each message: the platform's if there is one, else an inferred one. Its parent is older, not
-- deleted, and has the same audience.
create view answers with (security_invoker = true) as
select child.org_id, child.id as child_id, edge.parent_id, edge.method, edge.confidence, edge.answer_probability
from messages as child
cross join lateral (
  select replies.parent_id, replies.method, replies.confidence, replies.answer_probability
  from replies
  -- One index lookup for each row, whatever the planner estimates.
  cross join lateral (
    select said.id, said.kind, said.sent_at, said.sequence, recipients(said) as recipients
    from messages as said
    where said.org_id = replies.org_id and said.id = replies.parent_id and said.erased_at is null
    limit 1
  ) as parent
  where replies.org_id = child.org_id
    and replies.child_id = child.id
    and parent.kind = child.kind
    and (parent.sent_at, parent.sequence, parent.id) < (child.sent_at, child.sequence, child.id)
    and (child.kind <> 'whisper' or parent.recipients = recipients(child))
  order by case replies.method when 'explicit' then 1 when 'thread' then 2 else 3 end
  limit 1
) as edge
where child.kind in ('message', 'whisper') and child.erased_at is null;

grant select on answers to roomlore_app;

-- Whether an inferred reply belongs to the exchange of its parent: it probably replies to the parent, which is a question,
-- and may answer it. `Reply.is_answer` is the same rule.
create function is_answer(confidence real, answer_probability real) returns boolean
  language sql immutable parallel safe
return confidence >= real '0.6' and coalesce(answer_probability >= real '0.1', false);

-- The parent of a message in its thread, as far as the reader may see both: the platform's parent, else the root of
-- its thread, else the question that it probably answers. Other inferred replies do not count, or a whole afternoon would
-- become one thread (measured: docs/decisions/which-replies-form-a-thread.md).
-- At most one for each message. Single values, not `exists`, which might read every reply.
-- Uses indexes: replies_from, replies_to
create view thread_edges with (security_invoker = true) as
select edge.org_id, edge.room_id, edge.child_id, edge.parent_id, edge.method, edge.confidence, edge.answer_probability
from replies as edge
where edge.parent_id is not null
  and case edge.method
    when 'explicit' then true
    when 'thread' then (
      select stated.parent_id
      from replies as stated
      where stated.org_id = edge.org_id and stated.child_id = edge.child_id and stated.method = 'explicit'
    ) is null
    else is_answer(edge.confidence, edge.answer_probability)
      and (
        select stated.parent_id
        from replies as stated
        where stated.org_id = edge.org_id
          and stated.child_id = edge.child_id
          and stated.method in ('explicit', 'thread')
          and stated.parent_id is not null
        limit 1
      ) is null
  end;

grant select on thread_edges to roomlore_app;

-- The people and rooms that a message mentions, in its platform's structure or by marks like <@9> or <#5>, as far as
-- the viewer may know them. It runs with the rights of the reader.
create function named_in(room uuid, accounts jsonb, words text) returns jsonb
  language sql stable parallel safe set search_path = roomlore, pg_temp
as $$
  with said as (
    select kind, word
    from (
      select '@' as kind, listed.word
      from jsonb_array_elements_text(
        case jsonb_typeof(accounts) when 'array' then accounts else '[]' end
      ) as listed (word)
      union
      select mark[1], mark[2] from regexp_matches(words, '<([@#])[!&]?([^<>|\s]{1,100})(?:\|[^<>]*)?>', 'g') as mark
    ) as named
    order by kind, word
    limit 200
  ),
  here as (
    select platform from rooms where org_id = current_org() and id = room
  )
  select coalesce(jsonb_agg(known.one order by known.kind, known.word), '[]')
  from (
    select
      said.kind, said.word,
      jsonb_build_object(
        'external_id', said.word, 'name', known_participants.name,
        'participant_id', known_participants.id, 'room_id', null
      ) as one
    from said
    cross join here
    join platform_accounts
      on platform_accounts.org_id = current_org()
      and platform_accounts.platform = here.platform
      and platform_accounts.account_id = said.word
      and platform_accounts.persona = ''
    join known_participants
      on known_participants.org_id = current_org() and known_participants.id = platform_accounts.participant_id
    where said.kind = '@'
    union all
    select
      said.kind, said.word,
      jsonb_build_object('external_id', said.word, 'name', rooms.name, 'participant_id', null, 'room_id', rooms.id)
    from said
    cross join here
    join rooms
      on rooms.org_id = current_org() and rooms.platform = here.platform and rooms.external_id = said.word
    where said.kind = '#'
  ) as known
$$;

-- Reactions with counts and people, as far as the viewer may know them.
create function reacted_to(room uuid, reactions jsonb) returns jsonb
  language sql stable parallel safe set search_path = roomlore, pg_temp
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'emoji', left(coalesce(one.value ->> 'emoji', ''), 100),
        'count', one.value -> 'count',
        'named', coalesce(jsonb_array_length(nullif(one.value -> 'by', 'null')), 0),
        'by', named_in(room, one.value -> 'by', '')
      )
      order by one.place
    ),
    '[]'
  )
  from jsonb_array_elements(
    case jsonb_typeof(reactions) when 'array' then reactions else '[]' end
  ) with ordinality as one (value, place)
  where jsonb_typeof(one.value) = 'object'
    and coalesce(jsonb_typeof(one.value -> 'by'), 'array') in ('array', 'null')
$$;

-- Messages with replies, mentions, reactions and metadata, as far as the reader may see them. A subquery, not a join:
-- for each message it uses the index, whatever the planner believes about the tables' sizes. The platform's metadata
-- may name people, rooms and messages that the viewer does not know: it is for the operator. `size` is in bytes; the
-- length of a stored text is known without reading it.
create view timeline with (security_invoker = true) as
select
  held.*,
  octet_length(held.body)
    + octet_length(held.told_metadata::text)
    + coalesce(octet_length(held.mentions::text), 0)
    + coalesce(octet_length(held.reactions::text), 0) as size
from (
  select
    messages.*,
    (
      select answered.parent_id
      from replies as answered
      where answered.org_id = messages.org_id
        and answered.child_id = messages.id
        and answered.method = 'explicit'
    ) as reply_to,
    case
      when messages.mentions is not null or strpos(messages.body, '<@') > 0 or strpos(messages.body, '<#') > 0
        then named_in(messages.room_id, messages.mentions, messages.body)
      else '[]'
    end as mentioned,
    case when messages.reactions is null then '[]' else reacted_to(messages.room_id, messages.reactions) end as reacted,
    case
      when messages.metadata is null then '{}'
      when (select viewer_is_operator()) then messages.metadata
      else messages.metadata - 'platform'
    end as told_metadata
  from messages
) as held;

grant select on timeline to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Conversations. Derived rows are for those who may see everything they were derived from.

create table conversations (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  label text not null default '',
  -- a person named it
  is_named boolean not null default false,
  sensitivity text not null default 'normal' check (sensitivity in ('normal', 'sensitive')),
  -- a person set the sensitivity
  is_sensitivity_set boolean not null default false,
  -- why it was split off: no earlier message, a long silence, another topic, or a person did it
  split_reason text not null check (split_reason in ('first', 'idle', 'topic', 'person')),
  -- the times of its first and last message
  opened_at timestamptz not null,
  last_at timestamptz not null,
  -- the idle timeout: the conversation is open until this long after its last message
  idle_timeout interval not null check (idle_timeout > interval '0'),
  -- a language model wrote the label
  is_titled boolean not null default false,
  -- the state when a language model was asked for a title; null if it was never asked
  title_state text,
  -- when a person closed it; a later message opens it again
  closed_at timestamptz,
  -- the state when rules, or a language model, last extracted memories; null if they never did
  extraction_state text,
  llm_extraction_state text,
  -- the error of the extraction, which waits until the conversation changes
  extraction_error text check (extraction_error <> ''),
  -- Who had written in a sensitive conversation when it became sensitive. Later authors are not included.
  prior_authors uuid[] not null default '{}',
  -- an operator set the sensitivity, and only an operator may change it
  is_sensitivity_set_by_operator boolean not null default false,
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index conversations_newest on conversations (org_id, last_at desc, id);
create index conversations_of_room on conversations (org_id, room_id, last_at desc, id);
create index conversations_from_end on conversations (org_id, id_from_end);
-- what language models and rules still have to read
create index conversations_unasked on conversations (org_id, last_at desc, id)
  where title_state is null and not is_named and sensitivity = 'normal';
create index conversations_undrawn on conversations (org_id, last_at desc, id) where extraction_state is null;
create index conversations_unread on conversations (org_id, last_at desc, id)
  where llm_extraction_state is null and sensitivity = 'normal';
create index conversations_extraction_failed on conversations (org_id, id) where extraction_error is not null;

grant select, insert, update, delete on conversations to roomlore_app;

-- Assigns each message to a conversation. Disentanglement updates these rows often; updating the wide rows of `messages`
-- would be far slower. Only operators read the table, because it names conversations that some viewers may not see.
-- Viewers call `conversation_of` and `messages_in`.
create table conversation_messages (
  -- no reference to orgs: the message has one
  org_id uuid not null,
  message_id uuid not null,
  conversation_id uuid not null,
  -- a person assigned it manually; disentanglement does not change it
  is_manual boolean not null default false,
  -- the idle timeout after this message, if it is the last of its conversation
  idle_timeout interval,
  -- the parent that the reply model chose, as the number of open messages back; disentanglement reads it again
  linked_offset smallint,
  primary key (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, conversation_id) references conversations (org_id, id)
);

create index conversation_messages_in on conversation_messages (org_id, conversation_id, message_id);

grant select, insert, update, delete on conversation_messages to roomlore_app;

-- Whether the viewer may read a message and was present when it was sent, even in an open room: as a member, or as an
-- author in its conversation before that became sensitive. All readers of the destination must also have been members.
create function was_member(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from readable_messages as said
    where said.id = message
      and (
        operator_reads_for_destination()
        or exists (
          select 1
          from memberships_of_viewer as stay
          where stay.room_id = said.room_id
            and stay.joined_at <= said.sent_at
            and (stay.left_at is null or said.sent_at < stay.left_at)
        )
        or exists (
          select 1
          from conversation_messages
          join conversations
            on conversations.org_id = conversation_messages.org_id and conversations.id = conversation_messages.conversation_id
          where conversation_messages.org_id = current_org()
            and conversation_messages.message_id = said.id
            and conversations.sensitivity = 'sensitive'
            and conversations.prior_authors && own_ids()
        )
      )
      and (
        destination_id() is null
        or (destination_memberships())[array_position(destination_rooms(), said.room_id)] @> said.sent_at
      )
  );
end $$;

-- Whether the viewer may see a conversation: they may read every message and, if it is sensitive, were present. Only
-- the operator sees a conversation without messages.
create function can_see_conversation(conversation uuid) returns boolean
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
      select 1 from conversation_messages where org_id = current_org() and conversation_id = conversation
    )
    and not exists (
      select 1
      from conversation_messages
      where conversation_messages.org_id = current_org()
        and conversation_messages.conversation_id = conversation
        -- A single value, not `exists`, which might read everything that the viewer may read.
        and (
          select true
          from readable_messages as said
          where said.id = conversation_messages.message_id and (held.sensitivity = 'normal' or was_member(said.id))
          limit 1
        ) is null
    );
end $$;

create policy read on conversations for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_conversation(id))
);

-- The messages of a conversation, if the viewer may see it. The rule is checked once.
create function messages_in(conversation uuid) returns setof uuid
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
  rows 20
as $$
begin
  if can_see_conversation(conversation) then
    return query
      select message_id from conversation_messages where org_id = current_org() and conversation_id = conversation;
  end if;
end $$;

-- The conversation of a message, if the viewer may see it; else null.
create function conversation_of(message uuid) returns uuid
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return (
    select conversation_id
    from conversation_messages
    where org_id = current_org() and message_id = message and can_see_conversation(conversation_id)
  );
end $$;

-- Whether the viewer and all readers of the destination could read a room from its first message on. Only then may they
-- know why a conversation was split off and its idle timeout, because both depend on all earlier messages.
create function was_present_from_start(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  first_at constant timestamptz := coalesce(
    (
      select messages.sent_at
      from messages
      where messages.org_id = current_org() and messages.room_id = room
      order by messages.sent_at
      limit 1
    ),
    'infinity'
  );
begin
  return viewer_is_operator()
    or exists (select 1 from open_rooms_of_viewer where open_rooms_of_viewer.room_id = room)
    or (
      operator_reads_for_destination()
      or exists (
        select 1
        from memberships_of_viewer as stay
        where stay.room_id = room and stay.left_at is null and stay.joined_at <= first_at
      )
    )
    and (
      destination_id() is null
      or coalesce(
        (destination_memberships())[array_position(destination_rooms(), room)] @> tstzrange(first_at, null), false
      )
    );
end $$;

-- The authors in a conversation, without the tombstone author.
create function speakers(org uuid, conversation uuid) returns uuid[]
  language sql stable set search_path = roomlore, pg_temp
  return array(
    select distinct messages.author_id
    from conversation_messages
    join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
    where conversation_messages.org_id = org
      and conversation_messages.conversation_id = conversation
      and messages.kind in ('message', 'whisper')
      and messages.erased_at is null
    order by messages.author_id
  );

-- Whether a conversation has ended: it timed out, or a person closed it.
create function is_over(held conversations, at timestamptz) returns boolean
  language sql stable
  return held.last_at + held.idle_timeout <= at or coalesce(held.closed_at >= held.last_at, false);

-- Where the label of a conversation comes from. Read it like a column: conversations.label_source.
create function label_source(held conversations) returns text
  language sql immutable
  return case
    when held.is_named then 'person'
    when held.is_titled and held.label <> '' then 'language model'
    else 'words'
  end;

-- The state of a conversation: a value that changes with any text, name or message in it.
create function conversation_state(org uuid, conversation uuid) returns text
  language sql stable
  return (
    select md5(
      string_agg(
        concat_ws(' ', messages.id, md5(messages.author_name), md5(messages.body)), ',' order by messages.id
      )
    )
    from conversation_messages
    join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
    where conversation_messages.org_id = org and conversation_messages.conversation_id = conversation
  );

-- The state for extractors, which also depends on the sensitivity.
create function current_extraction_state(held conversations) returns text
  language sql stable
  return held.sensitivity || ' ' || conversation_state(held.org_id, held.id);

-- Whether the title of a language model is still valid: the conversation has not changed, and nobody removed the label.
create function is_pending(held conversations) returns boolean
  language sql stable
  return case
    when held.title_state is null or (held.is_titled and held.label = '') then false
    else held.title_state = conversation_state(held.org_id, held.id)
  end;

---------------------------------------------------------------------------------------------------
-- Memories

create table memories (
  org_id uuid not null references orgs,
  id uuid not null,
  kind text not null check (
    kind in (
      'decision', 'announcement', 'answer', 'promise', 'resource',
      'technical_decision', 'process_decision', 'preference', 'fact', 'lesson', 'pattern', 'anti_pattern',
      'correction', 'process_outcome', 'context', 'observation', 'interaction', 'learning', 'insight'
    )
  ),
  content text not null check (content <> ''),
  sensitivity text not null default 'normal' check (sensitivity in ('normal', 'sensitive')),
  -- null if it was derived from its sources, or if the operator stated it
  asserted_by uuid,
  recorded_at timestamptz not null,
  -- the memory that superseded it
  superseded_by uuid,
  words tsvector not null generated always as (to_tsvector('english'::regconfig, content)) stored,
  -- a short form; empty if the content is short enough
  title text not null default '',
  importance real not null default 3 check (importance between 1 and 5),
  confidence real not null default 1 check (confidence between 0 and 1),
  -- since when it is true: when its first source was sent, unless stated otherwise
  valid_from timestamptz not null default now(),
  -- a person archived it: it is neither recalled nor extracted again
  archived_at timestamptz,
  -- the task that it belongs to: an id chosen by the caller
  task_id text check (task_id <> ''),
  -- the room where it was asserted
  asserted_in uuid,
  -- The dedup scope: whom it is about and who may read it. Only memories with the same scope are duplicates or
  -- supersede each other.
  dedup_scope text not null default md5(gen_random_uuid()::text),
  -- the digest of the normalised content; memories with the same digest are duplicates
  digest text not null default md5(gen_random_uuid()::text),
  status text not null generated always as (
    case when superseded_by is not null then 'deprecated' when archived_at is not null then 'archived' else 'active' end
  ) stored,
  -- whether it is sensitive only because the conversation of a source is
  is_conversation_sensitive boolean not null default false,
  -- without sources: whether the whole org or only its asserter may read it
  audience text not null default 'self' check (audience in ('org', 'self')),
  -- facts that the asserter added
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  -- People name a memory, conversation, key, receipt or request by the end of its id, because ids made together begin
  -- alike. A column, because under row-level security a comparison of columns may use an index, and a function of a
  -- column may not.
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  foreign key (org_id, asserted_by) references participants (org_id, id),
  foreign key (org_id, superseded_by) references memories (org_id, id),
  foreign key (org_id, asserted_in) references rooms (org_id, id),
  check (superseded_by <> id),
  check (not is_conversation_sensitive or sensitivity = 'sensitive')
);

create index memories_superseded on memories (org_id, superseded_by) where superseded_by is not null;
create index memories_words on memories using gin (words);
-- Writers hold a lock, so there are no duplicates. No constraint, because an erasure may make superseded duplicates
-- active.
create index memories_saying on memories (org_id, dedup_scope, digest) where status = 'active';
create index memories_of_task on memories (org_id, task_id) where task_id is not null;
create index memories_by_time on memories (org_id, valid_from, id);
create index memories_from_end on memories (org_id, id_from_end);

grant select, insert, update, delete on memories to roomlore_app;

create table memory_sources (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  message_id uuid not null,
  -- the part of the text that states it; null for all of it
  quote_start integer check (quote_start >= 0),
  quote_end integer,
  -- the name of the extractor: 'message model' or that of a language model; null if a person stated the source
  extracted_by text,
  primary key (org_id, memory_id, message_id),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, message_id) references messages (org_id, id),
  check ((quote_start is null) = (quote_end is null) and quote_start < quote_end)
);

create index memory_sources_of_message on memory_sources (org_id, message_id);

grant select, insert, update, delete on memory_sources to roomlore_app;

create table memory_participants (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  participant_id uuid not null,
  -- who stated it, whom it is about, who else it names, who observed it
  role text not null check (role in ('author', 'subject', 'involved', 'perspective')),
  primary key (org_id, memory_id, participant_id, role),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create index memory_participants_of_participant on memory_participants (org_id, participant_id);
-- for the memories of an agent
create index memory_participants_perspective on memory_participants (org_id, participant_id, memory_id)
  where role = 'perspective';

grant select, insert, update, delete on memory_participants to roomlore_app;

create table memory_tags (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  tag text not null check (tag <> ''),
  primary key (org_id, memory_id, tag),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

create index memory_tags_of_tag on memory_tags (org_id, tag, memory_id);

grant select, insert, update, delete on memory_tags to roomlore_app;

-- A person keeps a memory beside others of its slot that say something else.
create table supersession_overrides (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  -- the digest of the content of its former successor
  digest text not null,
  primary key (org_id, memory_id, digest),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

grant select, insert, update, delete on supersession_overrides to roomlore_app;

-- Whether the viewer asserted, stated or observed a memory, or it is about them.
create function is_involved(held memories) returns boolean
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

-- Whether the viewer may read a memory: they may read every source, were present if it is sensitive, and no request
-- restricts it. A memory without sources is for its asserter or the whole org; with a destination, all its readers must
-- be among these. A superseded memory is hidden from those who may not see its successor, to whom it would seem active.
-- An archived memory is for those it concerns. An operator sees every memory if privacy requests do not apply. The loop
-- also ends if successors form a cycle.
create function can_see_memory(memory uuid) returns boolean
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
    if sees_all and not applies_restrictions() then
      return true;
    end if;
    if held.archived_at is not null and not sees_all and not is_involved(held) then
      return false;
    end if;
    if not exists (select 1 from memory_sources where org_id = current_org() and memory_id = held.id) then
      if not (
          destination_id() is null
          or is_destination_of(held.asserted_by)
          or (held.audience = 'org' and destination_has_readers())
        )
        or not (
          sees_all
          or (
            coalesce(held.asserted_by = any (own_ids()), false)
            or (held.audience = 'org' and (viewer_is_participant() or operator_reads_for_destination()))
          )
        )
      then
        return false;
      end if;
    elsif exists (
      select 1
      from memory_sources
      where org_id = current_org()
        and memory_id = held.id
        and (
          not case held.sensitivity
            when 'normal' then can_see_message(message_id)
            else sees_all or was_member(message_id)
          end
          or is_restricted(message_id)
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

create policy read on memories for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_memory(id))
);

create policy read on memory_sources for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_memory(memory_id))
);

create policy read on memory_participants for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or (can_see_memory(memory_id) and can_see_participant(participant_id)))
);

create policy read on memory_tags for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_memory(memory_id))
);

-- Requests also bind an operator if privacy requests apply. Other viewers are checked by `can_see_memory` anyway.
create policy not_restricted on memories as restrictive for select to roomlore_app using (
  org_id = (select current_org()) and (not (select applies_restrictions() and viewer_is_operator()) or can_see_memory(memories.id))
);

create policy not_restricted on memory_sources as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select applies_restrictions() and viewer_is_operator()) or can_see_memory(memory_sources.memory_id))
);

create policy not_restricted on memory_participants as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select applies_restrictions() and viewer_is_operator()) or can_see_memory(memory_participants.memory_id))
);

create policy not_restricted on memory_tags as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select applies_restrictions() and viewer_is_operator()) or can_see_memory(memory_tags.memory_id))
);

-- A policy checks each row: for a memory with fifty sources, it would check all fifty sources fifty times. The two
-- functions below check each memory once.

-- Sources, participants and tags of memories: one row for each source, for each participant that the viewer may know,
-- and for each tag.
create function links_of(memories uuid[])
returns table (
  memory_id uuid, message_id uuid, quote_start integer, quote_end integer, extracted_by text,
  participant_id uuid, role text, tag text
)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  with told as materialized (
    select asked.id
    from (select distinct one.id from unnest(memories) as one (id)) as asked
    cross join lateral (select 1 where can_see_memory(asked.id) offset 0) as seen
  ),
  named as materialized (
    select held.memory_id, held.participant_id, held.role
    from told
    join memory_participants as held on held.org_id = current_org() and held.memory_id = told.id
  ),
  known as materialized (
    select asked.id
    from (select distinct named.participant_id as id from named) as asked
    cross join lateral (select 1 where viewer_is_operator() or can_see_participant(asked.id) offset 0) as seen
  )
  select held.memory_id, held.message_id, held.quote_start, held.quote_end, held.extracted_by, null::uuid, null, null
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

-- The memories derived from these messages.
create function derived_from(messages uuid[])
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
    cross join lateral (select 1 where can_see_memory(asked.memory_id) offset 0) as seen
  )
  select resting.message_id, resting.memory_id
  from resting
  join seen on seen.memory_id = resting.memory_id
$$;

-- The newest memories that match, newest first; all if `wanted` is null. Null in a filter means all. Newest by the time
-- since when they are true: imports may bring old ones. A page continues after a time and an id, so the memory with
-- that id may be gone. Filters come first; visibility is checked for the rest until enough are found. A filter by
-- people matches only people that the viewer may know.
create function newest_memories(
  room_ids uuid[], subject_ids uuid[], author_ids uuid[], perspective_ids uuid[], kinds text[], statuses text[],
  tags text[], task text, since timestamptz, as_of timestamptz, before_at timestamptz, before_id uuid,
  wanted bigint
)
returns table (memory_id uuid, valid_from timestamptz)
  language sql stable security definer set search_path = roomlore, pg_temp
  set plan_cache_mode = force_custom_plan
as $$
  with whom as materialized (
    select
      asked.role,
      array(select one.id from unnest(asked.ids) as one (id) where viewer_is_operator() or can_see_participant(one.id)) as ids
    from (
      values ('subject', subject_ids), ('author', author_ids), ('perspective', perspective_ids)
    ) as asked (role, ids)
    where asked.ids is not null
  )
  select meant.id, meant.valid_from
  from (
    select held.id, held.valid_from
    from memories as held
    where held.org_id = current_org()
      and (statuses is null or held.status = any (statuses))
      and (kinds is null or held.kind = any (kinds))
      and (task is null or held.task_id = task)
      and (held.valid_from, held.id)
        < (coalesce(before_at, 'infinity'), coalesce(before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
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
                -- A message that is not visible must not reveal its time.
                and can_see_memory(later.id)
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
          -- Looked up one by one; the room is never scanned.
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
    order by held.valid_from desc, held.id desc
    offset 0
  ) as meant
  cross join lateral (select 1 where can_see_memory(meant.id) offset 0) as seen
  order by meant.valid_from desc, meant.id desc
  limit wanted
$$;

---------------------------------------------------------------------------------------------------
-- Agents: their interactions and injected memories

-- Counts the interactions of an agent with a participant in each conversation. A relationship is the sum of its rows.
-- When a conversation changes, its rows are replaced. So no interaction is counted twice, and removed messages are not
-- counted.
create table interactions (
  org_id uuid not null references orgs,
  conversation_id uuid not null,
  agent_id uuid not null,
  participant_id uuid not null,
  -- messages of the participant
  messages integer not null check (messages > 0),
  -- replies by the agent to them, and by them to the agent
  answered integer not null check (answered >= 0),
  answers integer not null check (answers >= 0),
  -- how often another human agreed with them, or corrected them
  confirmed integer not null check (confirmed >= 0),
  corrected integer not null check (corrected >= 0),
  -- when the participant last wrote in the conversation
  last_at timestamptz not null,
  primary key (org_id, conversation_id, agent_id, participant_id),
  foreign key (org_id, conversation_id) references conversations (org_id, id) on delete cascade,
  foreign key (org_id, agent_id) references participants (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (agent_id <> participant_id)
);

create index interactions_of_agent on interactions (org_id, agent_id, participant_id);
create index interactions_with_participant on interactions (org_id, participant_id);

grant select, insert, update, delete on interactions to roomlore_app;

-- For the agent, if it may see the whole conversation.
create policy read on interactions for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and can_see_participant(participant_id) and can_see_conversation(conversation_id))
  )
);

-- How far an agent trusts somebody, as the agent or an operator stated it. The computed trust starts from it.
create table stated_trust (
  org_id uuid not null references orgs,
  agent_id uuid not null,
  participant_id uuid not null,
  trust double precision not null check (trust between 0 and 1),
  stated_at timestamptz not null,
  -- null: an operator
  stated_by uuid,
  primary key (org_id, agent_id, participant_id),
  foreign key (org_id, agent_id) references participants (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  foreign key (org_id, stated_by) references participants (org_id, id),
  check (agent_id <> participant_id)
);

create index stated_trust_in_participant on stated_trust (org_id, participant_id);
create index stated_trust_by_participant on stated_trust (org_id, stated_by) where stated_by is not null;

grant select, insert, update, delete on stated_trust to roomlore_app;

-- For the agent, if it may know of the participant.
create policy read on stated_trust for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and can_see_participant(participant_id))
  )
);

-- Whether a reply expresses agreement, judged by its first words.
create function agrees(body text) returns boolean
  language sql immutable parallel safe
  return left(btrim(body), 40) ~* (
    '^(\+1\M|(yes|yep|yeah)?[ ,]*(agreed|i agree|exactly|that works|works for me|sounds good|good (catch|point|idea)'
    '|thanks|thank you|thx|you''?re right|that''?s (right|correct|it)|correct|confirmed|makes sense|perfect)\M)'
  );

-- Whether a reply corrects its parent, judged by its first words. A reply to oneself is no correction.
create function is_correction(body text) returns boolean
  language sql immutable parallel safe
  return left(btrim(body), 40) ~* (
    '^((no|nope|nah|sorry)[ ,.]+)?(actually[ ,]|that''?s (not|wrong|incorrect)|that is (not|wrong|incorrect)|not quite\M'
    '|you''?re (wrong|mistaken)|(it|this) ?(is|''s) not (right|true|correct)|i disagree\M|wrong[ ,.!]|incorrect\M'
    '|correction:)'
  )
  and left(btrim(body), 80) !~* (
    '\m((scratch|strike) that|never ?mind|i meant?|i misspoke|i was (wrong|mistaken)|i take (that|it) back|my (bad|mistake))\M'
    '|^((no|nope|nah|sorry)[ ,.]+)?(actually|correction:)[ ,]+(i|my|we|our)\M(?! (disagree|think|doubt|believe)\M)'
  );

-- Memories injected into a room for an agent, each once until the room is compacted. A row is deleted with its message.
create table injections (
  org_id uuid not null references orgs,
  message_id uuid not null,
  room_id uuid not null,
  agent_id uuid not null,
  memory_id uuid not null,
  -- the message that triggered it
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

grant select, insert, update, delete on injections to roomlore_app;

-- For the agent, if it may see the message.
create policy read on injections for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and is_delivered(message_id))
  )
);

---------------------------------------------------------------------------------------------------
-- Vectors

-- Vectors of messages. Each partition has its own HNSW index, so that an index spans few orgs.
create table message_embeddings (
  org_id uuid not null,
  message_id uuid not null,
  room_id uuid not null,
  model text not null,
  embedding halfvec not null,
  -- The signs of each token's vector, 48 bytes for each token; null if the model gives none. Padded to 1,248 bytes:
  -- PostgreSQL stores only rows of more than 2,000 bytes outside, and a scan of vectors must not read tokens. Signs do
  -- not compress.
  tokens bytea storage external,
  primary key (org_id, message_id, model),
  foreign key (org_id, message_id) references messages (org_id, id)
) partition by hash (org_id);

create table message_embeddings_0 partition of message_embeddings for values with (modulus 4, remainder 0);
create table message_embeddings_1 partition of message_embeddings for values with (modulus 4, remainder 1);
create table message_embeddings_2 partition of message_embeddings for values with (modulus 4, remainder 2);
create table message_embeddings_3 partition of message_embeddings for values with (modulus 4, remainder 3);

-- exact dense search in rooms
create index message_embeddings_in_room on message_embeddings (org_id, model, room_id);

-- Partitions are read through their parent only.
grant select, insert, update, delete on message_embeddings to roomlore_app;

create policy read on message_embeddings for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_message(message_id))
);

-- Vectors of memories, apart from those of messages, which also have a room and token vectors. They are few, so a
-- search compares each of them.
create table memory_embeddings (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  model text not null,
  embedding halfvec not null,
  primary key (org_id, memory_id, model),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

create index memory_embeddings_of_model on memory_embeddings (org_id, model);

grant select, insert, update, delete on memory_embeddings to roomlore_app;

create policy read on memory_embeddings for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_see_memory(memory_id))
);

create policy not_restricted on memory_embeddings as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select applies_restrictions() and viewer_is_operator()) or can_see_memory(memory_id))
);

-- The embedding models of an org, one row for each state. `current` is in use. The vectors of `next` are being computed.
-- `previous` is kept so that a return is quick. An org without rows uses the default model.
create table embedding_versions (
  org_id uuid not null references orgs,
  state text not null check (state in ('current', 'next', 'previous')),
  -- the provider as named in the settings, without its key
  provider text not null,
  -- null until the provider has been reached
  model text,
  dimensions integer check (dimensions between 1 and 16000),
  since timestamptz not null default now(),
  -- since when the provider fails, and the kind of error
  failing_since timestamptz,
  error text,
  primary key (org_id, state)
);

grant select, insert, update, delete on embedding_versions to roomlore_app;

-- The messages that need a vector: those with a text. In a room that embeds threads, a reply to an older such message
-- with the same audience needs none: the thread's vector covers it. For the operator, who sees every reply.
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
      from thread_edges as edge
      join messages as carrying on carrying.org_id = edge.org_id and carrying.id = edge.parent_id
      where edge.org_id = said.org_id
        and edge.child_id = said.id
        and carrying.kind = said.kind
        and carrying.redacted_at is null
        and carrying.body ~ '\S'
        and (carrying.sent_at, carrying.sequence, carrying.id) < (said.sent_at, said.sequence, said.id)
        and (said.kind <> 'whisper' or recipients(carrying) = recipients(said))
      limit 1
    ) is null
  );

grant select on embeddable_messages to roomlore_app;

-- The memories that need a vector: all except archived ones. Superseded memories are needed to search the history.
create view embeddable_memories with (security_invoker = true) as
select memories.org_id, memories.id, memories.content
from memories
where memories.status <> 'archived';

grant select on embeddable_memories to roomlore_app;

-- All subjects that need a vector. Messages and memories never share an id.
create view embeddable with (security_invoker = true) as
select org_id, id from embeddable_messages
union all
select org_id, id from embeddable_memories;

grant select on embeddable to roomlore_app;

-- All subjects that have a vector: its model, and whether token vectors are stored.
create view embedded with (security_invoker = true) as
select org_id, message_id as id, model, tokens is not null as has_tokens from message_embeddings
union all
-- memories have no token vectors
select org_id, memory_id, model, true from memory_embeddings;

grant select on embedded to roomlore_app;

-- The lengths of vectors that may have an approximate index: those of common models. Index and plan depend on the
-- length. Vectors of any other length are scanned.
create function indexed_lengths() returns integer[]
  language sql immutable
return array[384, 512, 768, 1024, 1536, 2048, 3072];

-- Builds the approximate index of one partition for one length of vectors, if an org has at least `worth_it` of them;
-- returns how many were built. Reads continue meanwhile; writers of vectors in that partition wait. So it builds one
-- index per transaction, and takes no lock before it knows that an index is needed.
create function build_vector_indexes(worth_it bigint) returns integer
  language plpgsql volatile security definer set search_path = roomlore, public, pg_temp
  -- An index that does not fit into this memory takes many times as long; 200,000 vectors of 384 numbers take 220 MB.
  set maintenance_work_mem = '512MB'
as $$
declare
  part regclass;
  lengths integer[];
  length integer;
begin
  for part in
    select inhrelid from pg_inherits where inhparent = 'message_embeddings'::regclass and has_no_viewer()
  loop
    -- a number takes two bytes: a smaller table, what lies beside it included, needs no look inside
    continue when pg_table_size(part) < worth_it * 2 * (select min(one) from unnest(indexed_lengths()) as one);
    execute format(
      'select array(
         select distinct vector_dims(sample.embedding)
         from (select org_id, model from %1$s group by org_id, model having count(*) >= $1) as large
         cross join lateral (
           select embedding from %1$s as one
           where one.org_id = large.org_id and one.model = large.model
           limit 1
         ) as sample
         where vector_dims(sample.embedding) = any (indexed_lengths())
         order by 1
       )', part) into lengths using worth_it;
    foreach length in array lengths loop
      continue when to_regclass(part::text || '_near_' || length) is not null;
      -- a second worker does not wait for the first to build the same
      continue when not pg_try_advisory_xact_lock('pg_class'::regclass::integer, part::oid::integer);
      continue when to_regclass(part::text || '_near_' || length) is not null;
      execute format(
        'create index %1$I on %2$s using hnsw ((embedding::halfvec(%3$s)) halfvec_cosine_ops)
         where vector_dims(embedding) = %3$s',
        part::text || '_near_' || length, part, length);
      return 1;
    end loop;
  end loop;
  return 0;
end $$;

---------------------------------------------------------------------------------------------------
-- Search
--
-- These functions run as the owner, because a policy would disable the indexes of words and vectors. Each reads
-- `recallable_messages`, which has the whole rule, or calls `can_see_memory`. None returns the text of a message. Counts
-- are among what the viewer may read. Plans are generic, made once a session: the rule is long, and planning it takes
-- milliseconds.

-- What to search. Null in any field means everything.
create type search_filter as (
  rooms uuid[],
  authors uuid[],
  author_kinds text[],
  conversations uuid[],
  -- true: only messages with a reply; false: only questions without one
  is_answered boolean,
  since timestamptz,
  until timestamptz,
  -- only messages up to this position in its room
  last_at timestamptz,
  last_order bigint,
  last_id uuid
);

grant usage on type search_filter to roomlore_app;

-- How many messages are in these rooms, to choose between exact scan and index. Never show it.
create function rooms_size(rooms uuid[]) returns bigint
  language sql stable security definer set search_path = roomlore, pg_temp
  return (
    select coalesce(sum(message_count), 0)::bigint
    from room_activity
    where room_activity.org_id = (select current_org()) and (rooms is null or room_activity.room_id = any (rooms))
  );

-- Matches any of these words; null without words. A lexeme may contain operators of a query.
create function any_word(variadic lexemes text[]) returns tsquery
  language sql immutable parallel safe
  return (
    select string_agg(format($word$'%s'$word$, replace(replace(one.lexeme, $$\$$, $$\\$$), $$'$$, $$''$$)), ' | ')
    from unnest(lexemes) as one (lexeme)
    where one.lexeme <> ''
  )::tsquery;

-- The messages that a filter selects, if these are few in their rooms: by conversation, else by author, else by time.
-- Visible or not, so only for the functions below. Null without such a filter, or if it selects too many: each costs
-- four times as much as a vector in a scan.
create function few_matching(filters search_filter) returns uuid[]
  language plpgsql stable set search_path = roomlore, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
  since constant timestamptz := coalesce((filters).since, '-infinity');
  until constant timestamptz := coalesce((filters).until, 'infinity');
  -- a range that ends with the last message does not count as a filter by time: it includes all messages until then
  is_stretch constant boolean := (filters).since is not null or until < coalesce((filters).last_at, 'infinity');
  most bigint;
  found uuid[];
begin
  if (filters).conversations is null and (filters).authors is null and not is_stretch then
    return null;
  end if;
  most := least(20000, rooms_size((filters).rooms) / 4);
  if (filters).conversations is not null then
    found := array(
      select conversation_messages.message_id
      from conversation_messages
      where conversation_messages.org_id = current_org() and conversation_messages.conversation_id = any ((filters).conversations)
      limit most + 1
    );
  elsif (filters).authors is not null then
    found := array(
      select messages.id
      from messages
      where messages.org_id = current_org()
        and messages.author_id = any ((filters).authors)
        and ((filters).rooms is null or messages.room_id = any ((filters).rooms))
        and messages.sent_at >= since
        and messages.sent_at < until
      limit most + 1
    );
  else
    found := array(
      select said.id
      from rooms
      cross join lateral (
        select messages.id
        from messages
        where messages.org_id = current_org()
          and messages.room_id = rooms.id
          and messages.sent_at >= since
          and messages.sent_at < until
        limit most + 1
      ) as said
      where rooms.org_id = current_org() and ((filters).rooms is null or rooms.id = any ((filters).rooms))
      limit most + 1
    );
  end if;
  return case when cardinality(found) <= most then found end;
end $$;

-- `dense_candidates_exact`, `dense_candidates_indexed`, `lexical_candidates` and `context_window` share parts, which are written once here and put
-- into each. Loads the extension, so that its settings are known below.

do $$
declare
  -- no message that was sent after the last one
  said_by constant text := $said_by$
    (
      (filters).last_id is null
      or (said.sent_at, said.sequence, said.id) <= ((filters).last_at, (filters).last_order, (filters).last_id)
    )
  $said_by$;
  -- no reply that was sent after the last message
  by_then constant text := $by_then$
    ((filters).until is null or said.sent_at < (filters).until) and
  $by_then$ || said_by;
  fits constant text := by_then || $fits$
    and ((filters).rooms is null or said.room_id = any ((filters).rooms))
    and ((filters).authors is null or said.author_id = any ((filters).authors))
    and ((filters).author_kinds is null or said.author_kind = any ((filters).author_kinds))
    and ((filters).since is null or said.sent_at >= (filters).since)
    and ((filters).conversations is null or conversation_of(said.id) = any ((filters).conversations))
    and (
      (filters).is_answered is null
      -- as `thread_edges` has it: of what a message answers, only what the viewer may read counts
      or ((filters).is_answered or said.asks) and (filters).is_answered = exists (
        select 1
        from replies as edge
        join recallable_messages as answer on answer.id = edge.child_id
        where edge.org_id = said.org_id
          and edge.parent_id = said.id
          and $fits$ || replace(said_by, 'said.', 'answer.') || $fits$
          and (
            edge.method = 'explicit'
            or (
                edge.method = 'thread'
                or is_answer(edge.confidence, edge.answer_probability)
              )
              and not exists (
                select 1
                from replies as stated
                join recallable_messages as parent on parent.id = stated.parent_id
                where stated.org_id = edge.org_id
                  and stated.child_id = edge.child_id
                  and (stated.method = 'explicit' or stated.method = 'thread' and edge.method <> 'thread')
              )
          )
      )
    )
    and said.redacted_at is null
    and said.kind in ('message', 'whisper')
  $fits$;
  -- the messages that a filter and some words match
  matches constant text := $matches$
        select said.id, said.words, length(said.words) as size
        from unnest(few_ones) as one (id)
        cross join lateral (
          select * from recallable_messages as inside where inside.id = one.id limit 1
        ) as said
        where said.words @@ %2$s and %1$s
        union all
        select said.id, said.words, length(said.words) as size
        from recallable_messages as said
        where few_ones is null
          and (filters).rooms is null
          and said.org_id = (select current_org())
          and said.words @@ %2$s
          and %1$s
        union all
        select said.id, said.words, length(said.words) as size
        from unnest((filters).rooms) as asked_room (id)
        cross join lateral (
          select * from recallable_messages as inside where inside.room_id = asked_room.id and inside.words @@ %2$s
        ) as said
        where few_ones is null and %1$s
  $matches$;
  -- the nearest among a few messages
  picked constant text := $picked$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding <=> query) + 0 as distance
          from unnest(few_ones) as one (id)
          cross join lateral (
            select held.message_id, held.embedding
            from message_embeddings as held
            where held.org_id = (select current_org())
              and held.message_id = one.id
              and held.model = wanted_model
              and vector_dims(held.embedding) = vector_dims(query)
            limit 1
          ) as vectors
          order by distance, vectors.message_id
          offset 0
        ) as near
        cross join lateral (
          select 1 from recallable_messages as said where said.id = near.message_id and %1$s
        ) as readable
        order by near.distance, near.message_id
        limit wanted;
  $picked$;
  inside constant text := 'and vectors.room_id = any ((filters).rooms)';
  -- the nearest: every vector is compared
  scanned constant text := $scanned$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding <=> query) + 0 as distance
          from message_embeddings as vectors
          where vectors.org_id = (select current_org())
            and vectors.model = wanted_model
            and vector_dims(vectors.embedding) = vector_dims(query)
            %2$s
          order by distance, vectors.message_id
          offset 0
        ) as near
        cross join lateral (
          select 1 from recallable_messages as said where said.id = near.message_id and %1$s
        ) as readable
        order by near.distance, near.message_id
        limit wanted;
  $scanned$;
  -- the nearest, in index order
  walked constant text := $walked$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding::halfvec(%3$s)) <=> query::halfvec(%3$s) as distance
          from message_embeddings as vectors
          where vectors.org_id = (select current_org())
            and vector_dims(vectors.embedding) = %3$s
            and vectors.model = wanted_model
            %2$s
          order by (vectors.embedding::halfvec(%3$s)) <=> query::halfvec(%3$s)
          offset 0
        ) as near
        cross join lateral (
          -- with a limit; otherwise the planner may start from messages, and the index order is lost
          select 1 from recallable_messages as said where said.id = near.message_id and %1$s limit 1
        ) as readable
        limit wanted;
  $walked$;
  -- one for each vector length, because the plan depends on it
  walks text := '';
  length integer;
begin
  foreach length in array indexed_lengths() loop
    walks := walks || format(
      'elsif vector_dims(query) = %1$s and (filters).rooms is null then %2$s
      elsif vector_dims(query) = %1$s then %3$s ',
      length, format(walked, fits, '', length), format(walked, fits, inside, length)
    );
  end loop;

  -- Exact dense search: distances first, then visibility in their order until enough are found.
  execute format($create$
    create function dense_candidates_exact(query halfvec, wanted_model text, filters search_filter, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      -- starting a second process takes as long as the scan of a small room
      set max_parallel_workers_per_gather = 0
    as $body$
    declare
      few_ones constant uuid[] := few_matching(filters);
    begin
      if few_ones is not null then
        %1$s
      elsif (filters).rooms is null then
        %2$s
      else
        %3$s
      end if;
    end $body$
  $create$, format(picked, fits), format(scanned, fits, ''), format(scanned, fits, inside));

  -- Dense search through the index. Iterative scan is off by default and would silently lose rows.
  execute format($create$
    create function dense_candidates_indexed(query halfvec, wanted_model text, filters search_filter, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      set hnsw.iterative_scan = 'relaxed_order' set hnsw.ef_search = 100 set hnsw.max_scan_tuples = 200000
    as $body$
    declare
      few_ones constant uuid[] := few_matching(filters);
    begin
      if few_ones is not null then
        %1$s
      %2$s
      end if;
    end $body$
  $create$, format(picked, fits), walks);

  -- Lexical search: the words of the question with their rarity, ln(1 + n / df), where n is the sum of all df among
  -- what the viewer may read, and the messages that share most of them. If the rooms have very many messages and there
  -- is no other filter, only a sample is counted, and common words count only together.
  execute format($create$
    create function lexical_candidates(question text, filters search_filter, is_large boolean, wanted integer)
      returns table (lexemes text[], rarities double precision[], message_ids uuid[])
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set plan_cache_mode = force_generic_plan
    as $body$
    declare
      few_ones constant uuid[] := few_matching(filters);
      few constant integer := 800;
      enough constant integer := 100;
      most constant integer := 500;
      -- a word in more messages tells next to nothing, not even together with another word
      telling constant integer := 64000;
      counted_up_to constant integer := telling / 256 + 1;
      asked text[] := array(
        select first.lexeme
        from (
          select one.lexeme from unnest(to_tsvector('english', question)) as one order by one.positions[1] limit 64
        ) as first
        order by 1
      );
      counts bigint[];
      rare text[];
      -- rarest first, and how many messages have each
      common text[];
      spread bigint[];
      is_short boolean;
      query tsquery;
      -- two common words together; single words if these match too few messages
      pairs tsquery;
      other_pairs tsquery;
    begin
      if is_large then
        counts := array(
          select (
            select 256 * count(*)
            from (
              select 1
              from recallable_messages as said
              where said.org_id = (select current_org())
                and said.words @@ any_word(one.lexeme)
                and (uuid_hash(said.id) & 255) = 0
                and ((filters).rooms is null or said.room_id = any ((filters).rooms))
                and %5$s
              limit counted_up_to
            ) as sampled
          )
          from unnest(asked) with ordinality as one (lexeme, place)
          order by one.place
        );
        with counted as (
          select one.lexeme, one.df, sum(one.df + 1) over (order by one.df, one.lexeme) <= few as is_rare
          from unnest(asked, counts) as one (lexeme, df)
        )
        select
          array_agg(lexeme) filter (where is_rare),
          array_agg(lexeme order by df, lexeme) filter (where not is_rare),
          array_agg(df order by df, lexeme) filter (where not is_rare),
          coalesce(sum(df) filter (where is_rare), 0) < enough
        from counted
        into rare, common, spread, is_short;
        query := any_word(variadic rare);
        if is_short and (rare is null or spread[1] <= telling) then
          -- what the rarest of them is read for: the index skips through the others
          pairs := coalesce(
            any_word(common[1]) && any_word(variadic common[2:3]),
            case when rare is null then any_word(common[1]) end
          );
          if spread[2] <= telling then
            other_pairs := any_word(common[2]) && any_word(common[3]);
          end if;
        end if;
      else
        query := any_word(variadic asked);
      end if;

      return query
      with telling_ones as materialized (
        %2$s
      ),
      paired as materialized (
        select * from (%3$s) as said where query is null or not said.words @@ query limit most
      ),
      matched as materialized (
        select * from telling_ones
        union all
        select * from paired
        union all
        (
          select *
          from (%4$s) as said
          where (select count(*) from paired) < wanted
            and (query is null or not said.words @@ query)
            and not said.words @@ pairs
          limit most
        )
      ),
      asking as materialized (
        select one.lexeme, one.place, any_word(one.lexeme) as word
        from unnest(asked) with ordinality as one (lexeme, place)
      ),
      hits as (
        select matched.id, matched.size, asking.place
        from matched
        join asking on matched.words @@ asking.word
      ),
      found as (
        select asking.lexeme, asking.place, greatest(count(hits.id), counts[asking.place])::float8 as df
        from asking
        left join hits on hits.place = asking.place
        group by asking.lexeme, asking.place
      ),
      rarity as (
        select found.lexeme, found.place, ln(1 + sum(found.df) over () / greatest(found.df, 0.5)) as idf from found
      ),
      weighed as (
        select hits.id, sum(rarity.idf) / (0.25 + 0.75 * hits.size / (select avg(size) + 1 from matched) + 1) as weight
        from hits
        join rarity on rarity.place = hits.place
        group by hits.id, hits.size
        order by weight desc, hits.id
        limit wanted
      )
      select
        asked,
        array(select rarity.idf from rarity order by rarity.place),
        array(select weighed.id from weighed order by weighed.weight desc, weighed.id);
    end $body$
  $create$,
    fits, format(matches, fits, 'query'), format(matches, fits, 'pairs'), format(matches, fits, 'other_pairs'), by_then);

  -- Messages and those around them, each once, in the order of the rooms, with their comparison with the question.
  execute format($create$
    create function context_window(
      seeds uuid[], lexemes text[], query halfvec, wanted_model text, filters search_filter, reach integer
    )
      returns table (
        message_id uuid, author_name text, follows boolean, size integer, counts integer[],
        similarity double precision, matches_filter boolean
      )
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
    as $body$
    declare
      shared constant tsquery := any_word(variadic lexemes);
    begin
      return query
      with placed as materialized (
        select said.id, said.room_id, said.sent_at, said.sequence
        from unnest(seeds) as seed (id)
        cross join lateral (
          select * from recallable_messages as one where one.id = seed.id limit 1
        ) as said
      ),
      windows as (
        select
          around.*,
          lag(around.id) over (
            partition by placed.id order by around.sent_at, around.sequence, around.id
          ) as before_id
        from placed
        cross join lateral (
          (
            select said.id, said.room_id, said.sent_at, said.sequence, said.author_name, said.words, %1$s as lies_in
            from recallable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.sequence, said.id) < (placed.sent_at, placed.sequence, placed.id)
              and said.kind in ('message', 'whisper')
            order by said.sent_at desc, said.sequence desc, said.id desc
            limit reach
          )
          union all
          (
            select said.id, said.room_id, said.sent_at, said.sequence, said.author_name, said.words, %1$s as lies_in
            from recallable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.sequence, said.id) >= (placed.sent_at, placed.sequence, placed.id)
              and said.kind in ('message', 'whisper')
              and %2$s
            order by said.sent_at, said.sequence, said.id
            limit reach + 1
          )
        ) as around
      ),
      once as (
        select distinct on (windows.room_id, windows.sent_at, windows.sequence, windows.id) windows.*
        from windows
        order by windows.room_id, windows.sent_at, windows.sequence, windows.id, windows.before_id nulls last
      )
      select
        once.id,
        once.author_name,
        coalesce(
          once.before_id = lag(once.id) over (order by once.room_id, once.sent_at, once.sequence, once.id), false
        ),
        length(once.words),
        case when once.words @@ shared then array(
          select coalesce(cardinality(word.positions), 0)
          from unnest(lexemes) with ordinality as one (lexeme, place)
          left join unnest(once.words) as word on word.lexeme = one.lexeme
          order by one.place
        ) end,
        1 - (
          select vectors.embedding <=> query
          from message_embeddings as vectors
          where vectors.org_id = (select current_org())
            and vectors.message_id = once.id
            and vectors.model = wanted_model
            and vector_dims(vectors.embedding) = vector_dims(query)
        ),
        once.lies_in
      from once
      order by once.room_id, once.sent_at, once.sequence, once.id;
    end $body$
  $create$, fits, by_then);
end $$;

-- The token vectors of messages that the viewer may read. As the owner, because the policy would check row by row in a
-- function, which takes several times longer.
create function token_vectors(wanted_model text, message_ids uuid[])
  returns table (message_id uuid, tokens bytea)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  select readable.id, vectors.tokens
  from unnest(message_ids) as asked (id)
  cross join lateral (
    select said.id
    from recallable_messages as said
    where said.id = asked.id and said.redacted_at is null
    limit 1
  ) as readable
  cross join lateral (
    select held.tokens
    from message_embeddings as held
    where held.org_id = current_org()
      and held.message_id = readable.id
      and held.model = wanted_model
      and held.tokens is not null
    limit 1
  ) as vectors
$$;

-- The memories that share the rarest words with a question, among those that the viewer may see. Archived ones are not
-- found. Only the first words of a long question count.
create function lexical_memories(question text, wanted integer)
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
      and held.status <> 'archived' and can_see_memory(held.id)
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

-- The nearest memories that the viewer may see: distances first, then visibility in their order until enough are found.
-- Archived ones are not found. The cheap parts of the rule come first: whether all sources are readable, and the
-- audience of a memory without sources.
create function dense_memories(query halfvec, wanted_model text, wanted integer)
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
        or held.asserted_by = any (own_ids()) or held.audience = 'org'
        or exists (
          select 1
          from memory_sources as rests
          where rests.org_id = current_org() and rests.memory_id = near.memory_id
        )
      )
    offset 0
  ) as readable
  cross join lateral (select 1 where can_see_memory(near.memory_id) offset 0) as seen
  order by near.distance, near.memory_id
  limit wanted
$$;

-- The weight of a memory by age: full for thirty days, then half for every further thirty, never less than a quarter.
create function recency_weight(age interval) returns double precision
  language sql immutable parallel safe
  return greatest(
    0.25,
    power(0.5, greatest(extract(epoch from age)::float8 / (30 * 86400) - 1, 0))
  );

-- Which memories of an agent to return. Null in any field means all.
create type experience_filter as (
  kinds text[],
  -- with one of these tags
  tags text[],
  task_id text,
  -- naming one of these in any role but observer
  people uuid[],
  -- about this topic, or of high weight
  topic text,
  -- true: only memories of a task; false: only memories without one
  is_of_task boolean,
  -- newest first, whatever the weight
  is_newest_first boolean,
  -- true since this time or later
  since timestamptz,
  at timestamptz
);

-- The active memories that some accounts of one agent observed, as far as the viewer may see them: by topic and weight,
-- or newest first. Visibility is checked until enough are found.
create function experiences(agents uuid[], filters experience_filter, wanted integer)
returns table (memory_id uuid, weight double precision, is_on_topic boolean)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  with asked as materialized (
    select array_agg(lexeme) as lexemes, any_word(variadic array_agg(lexeme)) as query
    from unnest(to_tsvector('english'::regconfig, coalesce((filters).topic, '')))
  ),
  own as materialized (
    select distinct seen.memory_id
    from unnest(agents) as agent (id)
    join memory_participants as seen
      on seen.org_id = current_org() and seen.participant_id = agent.id and seen.role = 'perspective'
    where viewer_is_operator() or can_see_participant(agent.id)
  )
  select ranked.id, ranked.weight, ranked.is_on_topic
  from (
    select
      held.id, weighed.weight, about.is_on_topic, held.valid_from,
      about.is_on_topic and (filters).is_newest_first is not true as comes_first,
      case when (filters).is_newest_first then 0 else weighed.weight end as rank
    from own
    join memories as held on held.org_id = current_org() and held.id = own.memory_id
    cross join asked
    cross join lateral (select held.importance * recency_weight((filters).at - held.valid_from) as weight) as weighed
    cross join lateral (
      select
        asked.query is null
        or held.words @@ asked.query
        or exists (
          select 1
          from memory_tags
          where memory_tags.org_id = held.org_id
            and memory_tags.memory_id = held.id
            and to_tsvector('english'::regconfig, memory_tags.tag) @@ asked.query
        ) as is_on_topic
    ) as about
    where held.status = 'active'
      and ((filters).kinds is null or held.kind = any ((filters).kinds))
      and ((filters).task_id is null or held.task_id = (filters).task_id)
      and ((filters).is_of_task is null or (filters).is_of_task = (held.task_id is not null))
      and (
        (filters).tags is null
        or exists (
          select 1
          from memory_tags
          where memory_tags.org_id = held.org_id
            and memory_tags.memory_id = held.id
            and memory_tags.tag = any ((filters).tags)
        )
      )
      and (
        (filters).people is null
        or exists (
          select 1
          from memory_participants as named
          where named.org_id = held.org_id
            and named.memory_id = held.id
            and named.role <> 'perspective'
            and named.participant_id = any ((filters).people)
        )
      )
      and ((filters).since is null or held.valid_from >= (filters).since)
      -- above the default weight of a learning, as high as that of an insight
      and (about.is_on_topic or held.importance > 4)
    order by comes_first desc, rank desc, held.valid_from desc, held.id desc
    offset 0
  ) as ranked
  cross join lateral (select 1 where can_see_memory(ranked.id) offset 0) as seen
  order by ranked.comes_first desc, ranked.rank desc, ranked.valid_from desc, ranked.id desc
  limit wanted
$$;

-- A number that changes with the memories of an agent. It shows the agent and operators that something changed, and
-- reveals nothing else.
create function experience_state(agents uuid[]) returns bigint
  language sql stable security definer set search_path = roomlore, pg_temp
  return (
    select count(*) + coalesce(bit_xor(hashtextextended(seen.memory_id::text, 0)), 0) / 2
    from memory_participants as seen
    where seen.org_id = current_org()
      and seen.role = 'perspective'
      and seen.participant_id = any (agents)
      and (viewer_is_operator() or seen.participant_id = any (own_ids()))
  );

---------------------------------------------------------------------------------------------------
-- Language models: quotas and calls. All of it is for the operator.

-- The calls for an org. Each purpose counts on its own, so that failures of one do not block another.
create table llm_quota (
  org_id uuid not null references orgs,
  day date not null,
  calls integer not null check (calls >= 0),
  -- no call is allowed before this time: a call is running, or the last ones failed
  due_at timestamptz not null,
  failures integer not null default 0 check (failures >= 0),
  -- why the last one failed, without any text of messages
  error text,
  purpose text not null default 'titles' check (purpose in ('titles', 'statements')),
  primary key (org_id, purpose)
);

grant select, insert, update on llm_quota to roomlore_app;

create table llm_room_quota (
  org_id uuid not null references orgs,
  room_id uuid not null,
  day date not null,
  calls integer not null check (calls >= 0),
  primary key (org_id, room_id, day),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

grant select, insert, update, delete on llm_room_quota to roomlore_app;

-- The calls about conversations. A call is deleted with any message that it shows.
create table llm_calls (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  -- may be deleted
  conversation_id uuid not null,
  language_model text not null,
  -- the digest of the prompt, which is sent only once
  digest text not null,
  instructions text not null,
  prompt text not null,
  asked_at timestamptz not null,
  -- null until there is an answer
  answered_at timestamptz,
  answer text,
  -- why there is no answer
  error text,
  -- whether an earlier answer was reused
  is_repeated boolean not null default false,
  -- if the server reports it
  sent_tokens integer,
  answer_tokens integer,
  -- its claims with their validation results
  results jsonb,
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index llm_calls_same on llm_calls (org_id, digest) where answer is not null;
create index llm_calls_of_conversation on llm_calls (org_id, conversation_id, id);

grant select, insert, update, delete on llm_calls to roomlore_app;

create table llm_call_messages (
  org_id uuid not null references orgs,
  message_id uuid not null,
  call_id uuid not null,
  primary key (org_id, message_id, call_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, call_id) references llm_calls (org_id, id)
);

create index llm_call_messages_of_call on llm_call_messages (org_id, call_id);

grant select, insert, update, delete on llm_call_messages to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Access and audit

create table api_keys (
  org_id uuid not null references orgs,
  id uuid not null,
  name text not null check (name <> ''),
  role text not null check (role in ('operator', 'agent', 'member')),
  -- the participant that the key signs in; null for operators
  participant_id uuid,
  -- SHA-256 of the key: a key has 256 random bits, so nothing slower is needed
  digest bytea not null check (length(digest) = 32),
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  unique (org_id, digest),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check ((role = 'operator') = (participant_id is null)),
  -- the tombstone author is nobody's account
  check (participant_id <> org_id)
);

create index api_keys_of_participant on api_keys (org_id, participant_id) where participant_id is not null;
create index api_keys_from_end on api_keys (org_id, id_from_end);

grant select, insert, delete on api_keys to roomlore_app;
grant update (revoked_at) on api_keys to roomlore_app;

-- The session of a key, for a transaction without viewer; nothing if the key is unknown, expired or revoked.
create function sign_in(org uuid, wanted bytea) returns table (key_id uuid, role text, participant_id uuid)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select api_keys.id, api_keys.role, api_keys.participant_id
  from api_keys
  where api_keys.org_id = org
    and api_keys.digest = wanted
    and api_keys.revoked_at is null
    and (api_keys.expires_at is null or api_keys.expires_at > now())
    and has_no_viewer();
end;

-- Who read or changed what, never the text. It holds ids only and references nothing.
create table audit_log (
  org_id uuid not null references orgs,
  id uuid not null,
  at timestamptz not null default clock_timestamp(),
  -- null without a key
  key_id uuid,
  -- null for the operator
  viewer_id uuid,
  action text not null check (action ~ '^[a-z][a-z ]{0,39}$'),
  outcome text not null check (outcome in ('done', 'refused')),
  -- the ids of what was shown or changed
  subject_ids uuid[] not null default '{}',
  -- how long a search, answer or context took
  took_ms real check (took_ms >= 0),
  primary key (org_id, id)
);

create index activity_log_timed on audit_log (org_id, id) where took_ms is not null;

-- Append-only: it has no policy `change`. The server sets the time.
grant select on audit_log to roomlore_app;
grant insert (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms) on audit_log to roomlore_app;

create policy read on audit_log for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

create policy append on audit_log for insert to roomlore_app with check (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = (select viewer_id()))
);

-- Requests with an idempotency key, which are not repeated.
create table idempotency (
  org_id uuid not null references orgs,
  -- SHA-256 of the caller and the key, so that neither is stored
  digest bytea not null check (length(digest) = 32),
  -- the digest of the request
  request bytea not null check (length(request) = 32),
  -- the id of the claim of the request
  claim uuid not null,
  claimed_at timestamptz not null,
  -- null while the request runs, or if its outcome is unknown
  status smallint,
  -- Null if it contains text or a secret. Text is read again; a secret is shown once.
  body bytea,
  -- the path of the created resource
  place text,
  primary key (org_id, digest),
  check (status is not null or (body is null and place is null))
);

create index idempotency_by_age on idempotency (org_id, claimed_at);

grant select, insert, update, delete on idempotency to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Erasure

-- Messages and names of these accounts from before their erasure are rejected. Only digests are kept.
create table erased_accounts (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert, delete on erased_accounts to roomlore_app;

-- The names of erased persons as digests, so that nothing derived repeats them.
create table erased_names (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert on erased_names to roomlore_app;

-- Messages of a room in these times are rejected.
create table erased_ranges (
  org_id uuid not null references orgs,
  room_id uuid not null,
  since timestamptz not null,
  until timestamptz not null,
  erased_at timestamptz not null,
  primary key (org_id, room_id, since, until),
  foreign key (org_id, room_id) references rooms (org_id, id),
  check (since < until)
);

grant select, insert, delete on erased_ranges to roomlore_app;

-- Rooms that were erased and are rejected. Only digests are kept.
create table erased_rooms (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert, delete on erased_rooms to roomlore_app;

-- What an erasure removed and kept. It holds ids only and references nothing, because it outlives what it names.
create table receipts (
  org_id uuid not null references orgs,
  id uuid not null,
  at timestamptz not null,
  kind text not null check (kind in ('message', 'range', 'person', 'expiry', 'room')),
  room_id uuid,
  message_id uuid,
  participant_ids uuid[] not null default '{}',
  since timestamptz,
  until timestamptz,
  -- who requested it; both null for the operator without a key
  key_id uuid,
  viewer_id uuid,
  removed jsonb not null,
  kept jsonb not null,
  checks jsonb,
  checked_at timestamptz,
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id)
);

create index receipts_from_end on receipts (org_id, id_from_end);

grant select, insert on receipts to roomlore_app;
-- The verification comes later.
grant update (checks, checked_at) on receipts to roomlore_app;

create policy read on receipts for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

---------------------------------------------------------------------------------------------------
-- Work and changes. All of it is for the operator.

-- The work queue. Rows are written in the transaction that makes them necessary.
create table work_queue (
  -- no reference to orgs: the subject has one
  org_id uuid not null,
  queue text not null check (
    queue in ('embed', 'disentangle', 'interactions', 'inject', 'qdrant', 'neo4j', 'reembed', 'read')
  ),
  subject_id uuid not null,
  -- increases with each change of the subject: a result for an older version is discarded
  version integer not null default 1,
  -- how often it was leased since its last result: it may have killed its workers
  attempts integer not null default 0,
  -- how often it failed
  failures integer not null default 0,
  -- when it may be leased next; a lease sets it to a later time
  due_at timestamptz not null default now(),
  error text,
  dead_lettered_at timestamptz,
  -- since when it waits
  asked_at timestamptz not null default now(),
  -- The dirty range of a room, for disentanglement. A leased range stands apart from later changes, so that neither is
  -- lost.
  since timestamptz,
  until timestamptz,
  leased_since timestamptz,
  leased_until timestamptz,
  lease_id uuid,
  -- the message that an agent answered, to decide whether the answer is worth remembering
  trigger_id uuid,
  primary key (org_id, queue, subject_id),
  check ((since is null) = (until is null)),
  check ((leased_since is null) = (leased_until is null)),
  check ((queue = 'interactions') = (trigger_id is not null))
);

create index work_queue_due on work_queue (queue, org_id, due_at) where dead_lettered_at is null;
create index work_by_trigger on work_queue (org_id, trigger_id) where trigger_id is not null;
-- how long the oldest waits
create index work_asked on work_queue (org_id, queue, asked_at);

grant select, insert, update, delete on work_queue to roomlore_app;

-- Leases up to `total` due rows of a queue: at most `per_org` of each org, of one org only, or of all but some. A row
-- that was leased and never finished is due again when its lease ends. After three such attempts it is leased only with
-- `suspects`, alone, so that it stops no other work. After ten it becomes a dead letter.
create function lease_work(
  wanted_queue text, only_org uuid, per_org integer, total integer, lease interval,
  suspects boolean default false, without uuid[] default '{}'
)
  returns table (org_id uuid, subject_id uuid, version integer, attempts integer)
  language sql volatile security definer set search_path = roomlore, pg_temp
begin atomic
  with due_orgs as (
    select orgs.org_id
    from orgs
    where has_no_viewer()
      and (only_org is null or orgs.org_id = only_org)
      and orgs.org_id <> all (without)
      and exists (
        select 1 from work_queue
        where work_queue.queue = wanted_queue and work_queue.org_id = orgs.org_id
          and work_queue.dead_lettered_at is null and work_queue.due_at <= now()
          and (work_queue.attempts >= 3) = suspects
      )
    order by random()
  ),
  taken as (
    select mine.org_id, mine.subject_id
    from due_orgs
    cross join lateral (
      select work_queue.org_id, work_queue.subject_id
      from work_queue
      where work_queue.queue = wanted_queue and work_queue.org_id = due_orgs.org_id
        and work_queue.dead_lettered_at is null and work_queue.due_at <= now()
        and (work_queue.attempts >= 3) = suspects
      order by work_queue.due_at
      limit per_org
      for update skip locked
    ) as mine
    limit total
  ),
  leased as (
    update work_queue
    set
      due_at = now() + lease * case when suspects then 1 + random() else 1 end,
      attempts = work_queue.attempts + 1,
      dead_lettered_at = case when work_queue.attempts >= 10 then now() end,
      error = case when work_queue.attempts >= 10 then 'Unfinished' else work_queue.error end
    from taken
    where work_queue.org_id = taken.org_id and work_queue.queue = wanted_queue and work_queue.subject_id = taken.subject_id
    returning work_queue.org_id, work_queue.subject_id, work_queue.version, work_queue.attempts, work_queue.dead_lettered_at
  )
  select leased.org_id, leased.subject_id, leased.version, leased.attempts
  from leased
  where leased.dead_lettered_at is null;
end;

-- How much work waits and how much failed, in all orgs or in one.
create function count_work(wanted_queue text, only_org uuid, without uuid[] default '{}')
  returns table (waiting bigint, dead_lettered bigint)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select count(*) filter (where work_queue.dead_lettered_at is null), count(*) filter (where work_queue.dead_lettered_at is not null)
  from work_queue
  where work_queue.queue = wanted_queue
    and (only_org is null or work_queue.org_id = only_org)
    and work_queue.org_id <> all (without)
    and has_no_viewer();
end;

-- The workers that ran recently, for operators. A worker writes a row in each org that it serves.
create table heartbeats (
  org_id uuid not null references orgs,
  worker_id uuid not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  primary key (org_id, worker_id)
);

grant select, insert, update, delete on heartbeats to roomlore_app;

-- A UUID version 7, by the server's clock.
create function change_id() returns uuid
  language sql volatile parallel safe
  return encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
          from 1 for 6
        ),
        52, 1
      ),
      53, 1
    ),
    'hex'
  )::uuid;

-- Changes that event streams and projections read. A transaction that changes something also writes rows here, one for
-- each room and kind of change. Readers take the rows in the order (xid, id), and only those older than every running
-- transaction, so they miss no row that commits later. Viewers cannot read it, because a row would reveal a change.
create table outbox (
  org_id uuid not null references orgs,
  id uuid not null default change_id(),
  xid xid8 not null default pg_current_xact_id(),
  -- null for a memory without sources
  room_id uuid,
  kind text not null check (
    kind in (
      'message.added', 'message.revised', 'message.redacted', 'message.erased', 'memory.added', 'memory.changed',
      'conversation.changed'
    )
  ),
  -- Messages, memories or conversations, by kind; visibility is checked when they are delivered.
  subject_ids uuid[] not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index changes_in_order on outbox (org_id, xid, id);
create index outbox_of_room on outbox (org_id, kind, room_id);

grant select, insert, update, delete on outbox to roomlore_app;

-- The indexes in other servers, one row for each org and kind of server.
create table projections (
  org_id uuid not null references orgs,
  target text not null check (target in ('qdrant', 'neo4j')),
  -- the index that is read; null until the first is complete
  index_name text,
  -- the embedding model of its vectors, and their length
  model text,
  dimensions integer,
  -- The index that is being built, and a transaction that began when everybody could know of it. When all earlier
  -- transactions have ended, everything is enqueued, and that is recorded.
  next_index_name text,
  next_model text,
  next_dimensions integer,
  next_xid xid8,
  next_since timestamptz,
  -- the fencing token: grows with each read, so that older data never replaces newer
  fencing_token bigint not null default 0,
  -- since when the server fails, and the kind of error
  failing_since timestamptz,
  error text,
  -- the last subject that was enqueued for the new index
  next_after uuid,
  primary key (org_id, target),
  check (index_name is not null or next_index_name is not null)
);

grant select, insert, update, delete on projections to roomlore_app;

-- Enqueues subjects for projections in some servers and wakes their workers when the transaction commits; returns how
-- many. The worker reads the current state of a subject. Erased subjects stay until their entries are deleted. A leased
-- row stays with its worker and is done again: nobody else writes the subject at the same time.
create function enqueue_projection_of(targets text[], subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work_queue (org_id, queue, subject_id)
    select projections.org_id, projections.target, subject.id
    from projections
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where projections.org_id = current_org() and projections.target = any (targets)
    order by projections.target, subject.id
    on conflict (org_id, queue, subject_id) do update
    set
      version = work_queue.version + 1,
      failures = 0,
      error = null,
      dead_lettered_at = null,
      -- leased, and not waiting for a retry
      attempts = case when work_queue.dead_lettered_at is null and work_queue.due_at > now() then work_queue.attempts else 0 end,
      due_at = case
        when work_queue.dead_lettered_at is null and work_queue.due_at > now() and work_queue.attempts > 0 then work_queue.due_at
        else now()
      end
    returning work_queue.queue
  ),
  woken as (
    select asked.queue, count(*) as size, pg_notify('roomlore_work', asked.queue) from asked group by asked.queue
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Messages are in every projection.
create function enqueue_projection(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return enqueue_projection_of(array['qdrant', 'neo4j'], subject_ids);

-- Only vector indexes hold the vector of a message.
create function enqueue_points(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return enqueue_projection_of(array['qdrant'], subject_ids);

-- Only graphs hold participants, rooms, conversations and memories.
create function enqueue_graph_nodes(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return enqueue_projection_of(array['neo4j'], subject_ids);

-- Enqueues subjects for the next embedding model, if the org has one; returns how many. Neither model waits for the
-- other.
create function reembed(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work_queue (org_id, queue, subject_id)
    select embedding_versions.org_id, 'reembed', subject.id
    from embedding_versions
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where embedding_versions.org_id = current_org() and embedding_versions.state = 'next'
    on conflict (org_id, queue, subject_id) do update
    set version = work_queue.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, dead_lettered_at = null
    returning work_queue.queue
  ),
  woken as (
    select count(*) as size, pg_notify('roomlore_work', asked.queue) from asked group by asked.queue
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Analyzes tables that have changed much: after an import the planner knows nothing, and autovacuum takes a minute.
-- Tables without statistics are analyzed as soon as they have rows. A table of which an index is being built is
-- skipped, because the caller must not wait.
create function refresh_statistics() returns void
  language plpgsql volatile security definer set search_path = roomlore, pg_temp set lock_timeout = '500ms'
as $$
declare
  grown regclass;
begin
  for grown in
    select counted.relid
    from pg_stat_user_tables as counted
    join pg_class on pg_class.oid = counted.relid
    where counted.schemaname = 'roomlore'
      and has_no_viewer()
      and (
        (counted.n_mod_since_analyze > 1000 and counted.n_mod_since_analyze > counted.n_live_tup / 10)
        or (pg_class.reltuples < 0 and pg_relation_size(counted.relid) > 100000)
      )
  loop
    begin
      execute format('analyze %s', grown);
    exception when lock_not_available then
      continue;
    end;
  end loop;
end $$;

---------------------------------------------------------------------------------------------------
-- What holds for every table and function

do $$
declare
  held record;
begin
  for held in
    select oid::regclass as name, relname, relispartition
    from pg_class
    where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p') and relname <> 'migrations'
    order by relname
  loop
    execute format('alter table %s enable row level security, force row level security', held.name);
    execute format('create policy owner on %s to roomlore_owner using (true) with check (true)', held.name);
    -- Only the operator changes rows; the application decides for whom.
    if not held.relispartition and held.relname <> 'audit_log' then
      execute format($policy$
        create policy change on %s to roomlore_app
        using (org_id = (select current_org()) and (select viewer_is_operator()))
        with check (org_id = (select current_org()) and (select viewer_is_operator()))
      $policy$, held.name);
    end if;
  end loop;
end $$;

grant execute on all functions in schema roomlore to roomlore_app;
