-- The schema of Roomlore. This file is the truth: it holds the final form of every table, policy and function.
--
-- It runs once, on an empty database, in one transaction, as a login that may create roles. How to change it:
-- CONTRIBUTING.md. A picture of its tables: docs/schema.md, which `make schema` writes.
--
-- Three rules hold for all tables.
--   1. Every key starts with org_id. No row can point into another org, and tables can be distributed by org.
--   2. Row-level security is forced on every table. The last chapter does this in one loop, so no table is left out.
--      The loop also makes the policies `owner` and `change`: only the operator of an org changes its rows. All other
--      policies stand in the chapter of their table, and each table is followed by its indexes and grants.
--   3. A viewer sees a row only by a policy named `read`. A table without one is the operator's.
--
-- For whom a transaction reads is stated in its settings. Unset or empty means nobody.
--   roomlore.org     the org
--   roomlore.viewer  the id of a participant, or 'operator'
--   roomlore.place   where the answer is to be posted: a room, or a whisper; empty: nowhere
--   roomlore.recall  'on' where requests of privacy are heeded
--
-- Chapters: roles; who reads; orgs and people; rooms; messages; privacy requests; who may see people, rooms and
-- messages; replies; conversations; memories; agents; vectors; search; language models; access and audit; erasure;
-- work and changes; what holds for every table.

---------------------------------------------------------------------------------------------------
-- Roles, extensions, schema

-- roomlore_owner owns tables and functions. Nobody logs in as it.
-- roomlore_app is what Roomlore runs as. It owns nothing and cannot bypass a policy.
-- Roles belong to the server, while the migration lock holds for one database: another may make the role meanwhile.
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

-- The rest of the transaction goes on as the owner.
set local role roomlore_owner;
set local search_path = roomlore, public;

grant usage on schema roomlore to roomlore_app;
alter default privileges for role roomlore_owner revoke execute on functions from public;

-- The functions below name settings of pgvector, which are known once it is loaded.
select '[1]'::vector;

-- Which version of the schema this is.
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

-- The participant who reads. Null for the operator and for nobody. The id of the org is the author of holes (see
-- `messages`): nobody reads as that author, who would see every hole in every room.
create function viewer_id() returns uuid
  language sql stable parallel safe
  return nullif(
    nullif(nullif(current_setting('roomlore.viewer', true), ''), 'operator')::uuid,
    current_org()
  );

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

-- Whether the operator reads and sees everything: not where the answer is to be posted.
create function viewer_is_operator() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.viewer', true) = 'operator', false)
    and nullif(current_setting('roomlore.place', true), '') is null;

-- Whether the transaction speaks for no viewer. Transactions of workers do not.
create function speaks_for_nobody() returns boolean
  language sql stable parallel safe
  return nullif(current_setting('roomlore.viewer', true), '') is null;

-- Whether the transaction recalls: search, answers, context and memories heed requests of privacy. The timeline of a
-- room does not; it shows what was said as it was said.
create function recalling() returns boolean
  language sql stable parallel safe
  return coalesce(current_setting('roomlore.recall', true), '') = 'on';

---------------------------------------------------------------------------------------------------
-- Orgs and people

create table orgs (
  org_id uuid primary key,
  name text not null unique check (name <> ''),
  created_at timestamptz not null default now(),
  -- what it does with requests of privacy: carry out the plain ones, propose all of them, or hear none
  wish_mode text not null default 'on' check (wish_mode in ('on', 'propose', 'off'))
);

-- A new org comes from `ensure_org` alone: its unique name would tell one org about the others.
grant select on orgs to roomlore_app;
grant update (wish_mode) on orgs to roomlore_app;

create policy read on orgs for select to roomlore_app using (org_id = (select current_org()));

create table participants (
  org_id uuid not null references orgs,
  id uuid not null,
  kind text not null check (kind in ('human', 'agent', 'system')),
  -- the name of the newest message, which not everybody may see: the operator's
  name text not null,
  -- What everybody who knows the participant may call it. It comes from a list of members or from the oldest message,
  -- whichever arrives first. Later names are seen on messages.
  first_name text not null,
  named_at timestamptz not null,
  first_named_at timestamptz not null,
  primary key (org_id, id)
);

grant select, insert, update, delete on participants to roomlore_app;

-- The accounts of a participant on the platforms. One bot account may have several personas.
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

grant select, insert, update, delete on identities to roomlore_app;

-- Participants who are accounts of one person. They read with one pair of eyes. A merge stands beside the participants:
-- it rewrites nothing, and a split takes it away again.
create table merges (
  org_id uuid not null references orgs,
  participant_id uuid not null,
  -- shared by the accounts of one person; it is the id of no participant, so it points to nobody unseen
  person_id uuid not null,
  primary key (org_id, participant_id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  -- the author of holes is nobody's account
  check (participant_id <> org_id)
);

create index merges_of_person on merges (org_id, person_id);

grant select, insert, update, delete on merges to roomlore_app;

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

-- The ids of all orgs. Workers ask for them and then work in each org on its operator's behalf.
create function org_ids() returns setof uuid
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select orgs.org_id from orgs where speaks_for_nobody() order by orgs.org_id;
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
  embedding_policy text not null default 'message' check (embedding_policy in ('message', 'exchange')),
  -- how long messages are kept; null: forever
  keep_for interval check (keep_for > interval '0'),
  last_compacted_at timestamptz,
  -- the time of the newest message that told who the members of a closed room are
  members_at timestamptz,
  created_at timestamptz not null default now(),
  -- whether its agents are given memories unasked
  is_injecting boolean not null default true,
  -- the server, workspace or network that the platform names
  workspace text not null default '',
  -- whether its platform ever said that it is for its members; saying it again is no news
  is_stated_closed boolean not null default false,
  -- whether it was said since to be open: that it is for its members then is news again
  is_stated_open boolean not null default false,
  -- whether an operator named it: its platform then names it no more
  is_named boolean not null default false,
  -- A room that is to keep less than before begins at `retention_starts_at`; until then this can be taken back. Before,
  -- it keeps what it kept before, where null is forever.
  kept_for_before interval check (kept_for_before > interval '0'),
  retention_starts_at timestamptz,
  primary key (org_id, id),
  unique (org_id, platform, external_id),
  check (keep_for is not null or retention_starts_at is null),
  constraint rooms_direct_closed check (kind not in ('dm', 'group_dm') or visibility = 'members')
);

grant select, insert, update, delete on rooms to roomlore_app;

create table memberships (
  org_id uuid not null references orgs,
  room_id uuid not null,
  participant_id uuid not null,
  -- '-infinity' where the platform says "member" but not since when
  joined_at timestamptz not null,
  left_at timestamptz,
  -- true where nobody stated a membership and only the participant's messages show it
  implied boolean not null default false,
  -- an operator stated it: no list of the platform changes it
  by_operator boolean not null default false,
  primary key (org_id, room_id, participant_id, joined_at),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (left_at is null or left_at >= joined_at)
);

create index memberships_of_participant on memberships (org_id, participant_id, room_id);

grant select, insert, update, delete on memberships to roomlore_app;

-- What a room is called among all rooms: rooms of several workspaces share names. The query `find_rooms` uses it too.
create function called_room(workspace text, name text) returns text
  language sql immutable parallel safe
  return case when workspace = '' or name = '' then name else workspace || '/' || name end;

-- Whether an operator said of somebody, by any account of theirs, that they are or are not a member of a room.
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
        from merges as mine
        join merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
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
  native_order bigint not null default 0,
  received_at timestamptz not null,
  edited_at timestamptz,
  redacted_at timestamptz,
  synthetic_id boolean not null default false,
  mentions jsonb,
  attachments jsonb,
  reactions jsonb,
  metadata jsonb,
  -- the foreign record, minus secrets
  raw jsonb,
  -- The id that a speaker stated, and a digest of the speaker's account. They are a space of their own, in which nobody
  -- takes an id that is the platform's to give.
  stated_id text,
  stated_by bytea check (length(stated_by) = 32),
  -- A tsvector holds at most 1 MB: very long bodies are found by their beginning.
  words tsvector not null generated always as (
    to_tsvector('english', author_name) || to_tsvector('english', left(body, 100000))
  ) stored,
  -- A message that was erased leaves a hole: a place in the room without author, words or name. The author of holes is
  -- the participant whose id is the org's own.
  erased_at timestamptz,
  -- injected for those alone whom it is addressed to, and not for every agent in the room
  is_directed boolean not null default false,
  primary key (org_id, id),
  unique (org_id, room_id, external_id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  check (redacted_at is null or body = ''),
  check ((stated_id is null) = (stated_by is null)),
  check (erased_at is null or (redacted_at is not null and author_id = org_id and author_name = '')),
  check (not is_directed or kind = 'context_injection')
) with (toast_tuple_target = 1024);

-- One speaker states one id for one message only.
create unique index messages_as_stated on messages (org_id, room_id, stated_id, stated_by)
where stated_id is not null;
-- timeline, context walk
create index messages_in_order on messages (org_id, room_id, sent_at, native_order, id);
-- "what did Ana say"
create index messages_by_author on messages (org_id, author_id, sent_at);
-- Whatever comes in again is compared with holes.
create index messages_holes on messages (org_id, room_id, external_id) where erased_at is not null;
-- whether something was removed in a room, for lines of logs that may be of it
create index messages_removed on messages (org_id, room_id) where redacted_at is not null or erased_at is not null;

-- Lexical search. With org and room in the index, a frequent word is looked up in one room as fast as in a small
-- database. This takes btree_gin; without it large orgs search more slowly and find the same.
-- How frequent a word is is told from one message in 256. No table of words is kept: it would have to forget what is
-- erased, and would count what not everybody may read.
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

-- Whom a whisper, or what was injected, is addressed to.
create table message_audience (
  org_id uuid not null references orgs,
  message_id uuid not null,
  participant_id uuid not null,
  primary key (org_id, message_id, participant_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

grant select, insert, update, delete on message_audience to roomlore_app;

-- Earlier texts of an edited message. The current text is on the message itself.
create table revisions (
  org_id uuid not null references orgs,
  message_id uuid not null,
  written_at timestamptz not null,
  body text not null,
  primary key (org_id, message_id, written_at),
  foreign key (org_id, message_id) references messages (org_id, id)
);

grant select, insert, update, delete on revisions to roomlore_app;

-- How much each participant wrote in each room, kept up as messages arrive. The operator's: it counts what not
-- everybody may see.
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

grant select, insert, update, delete on activity to roomlore_app;

-- Who hears a whisper, its author among them. Null for what everybody in the room hears.
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

---------------------------------------------------------------------------------------------------
-- Privacy requests ("wishes"): what is to be forgotten, what stays between some, what is kept from some

create table wishes (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  -- The message that states it. Its words are there and nowhere else. Null for a wish to forget that is gone: nothing
  -- is left of it but what is withheld for it of what others said, which would come back with it.
  message_id uuid,
  author_id uuid,
  kind text not null check (kind in ('forget', 'confide', 'withhold')),
  -- A request that was heard with doubt is proposed. It hides nothing until a person decides.
  status text not null default 'active' check (status in ('proposed', 'active', 'dismissed')),
  -- what heard it: 'rules' or the name of a language model
  heard_by text not null,
  heard_at timestamptz not null,
  decided_at timestamptz,
  -- null: by the operator
  decided_by uuid,
  -- What it covers, so that a message that comes later is compared by itself: messages by their ids, values as digests,
  -- matters by their names. None of it is a word that was said.
  target_ids uuid[] not null default '{}',
  marks text[] not null default '{}',
  own_marks text[] not null default '{}',
  -- from whom; null: from everybody but those who are spared
  from_ids uuid[],
  spared_ids uuid[] not null default '{}',
  is_standing boolean not null default false,
  -- so far back a restriction reaches; null: to the beginning
  since timestamptz,
  permits text[] not null default '{}',
  denies text[] not null default '{}',
  -- whose words a restriction covers; null: everybody's
  of_ids uuid[],
  -- What was heard of its words: places in the text of the message, never words, and a digest of that text. Null: it
  -- names nobody who is known, and is heard anew until it does.
  told jsonb,
  -- why a person is asked first; empty: it was put plainly
  doubt text not null default '',
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  unique (org_id, message_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id),
  foreign key (org_id, author_id) references participants (org_id, id),
  foreign key (org_id, decided_by) references participants (org_id, id),
  check (told is not null or message_id is null or heard_by = 'rules'),
  check ((message_id is null) = (author_id is null)),
  check (
    message_id is not null
    or (kind = 'forget' and told is null and (target_ids, marks, own_marks) = ('{}', '{}', '{}'))
  ),
  -- Only people dismiss.
  constraint wishes_dismissed_check check (status <> 'dismissed' or decided_at is not null)
);

create index wishes_of_room on wishes (org_id, room_id, message_id);
create index wishes_of_author on wishes (org_id, author_id);
create index wishes_gone on wishes (org_id) where message_id is null;
create index wishes_from_end on wishes (org_id, id_from_end);

grant select, insert, update, delete on wishes to roomlore_app;

-- What is withheld, by which wish, and from whom, as the wish has it. Nobody but the operator reads it: a row would
-- tell that there is something.
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

grant select, insert, update, delete on withheld to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Who may see people, rooms and messages
--
-- Many functions and views of this chapter run as the owner, so that the policy of one table can look at another
-- table without that table's policy asking back. Each states the org itself. Those in PL/pgSQL are planned once a
-- session, and not with every query that meets the policy.

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
      from merges as mine
      join merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
      where mine.org_id = current_org() and mine.participant_id = viewer_id()
    )
  end;

-- Whether the viewer is an agent. A person counts as an agent when every account of it does.
create function viewer_is_agent() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return coalesce(
    (select bool_and(kind = 'agent') from participants where org_id = current_org() and id = any (own_ids())),
    false
  );

-- Whether the viewer is somebody of the org.
create function viewer_is_participant() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1 from participants where participants.org_id = current_org() and participants.id = any (own_ids())
  );

-- The persons that some accounts belong to, each once, as far as the caller may know. The functions below may know
-- everything.
create function persons_of(accounts uuid[]) returns uuid[]
  language sql stable parallel safe set search_path = roomlore, pg_temp
  return array(
    select distinct coalesce(merges.person_id, one.id)
    from unnest(accounts) as one (id)
    left join merges on merges.org_id = current_org() and merges.participant_id = one.id
  );

-- The place: where the answer is to be posted, and who reads there. The place is part of the read. A transaction that
-- states a place sees only what everybody who reads there could read, besides what the viewer may see anyway. An
-- operator who states a place sees what those there see together.

create type place_bounds as (
  -- the place
  id uuid,
  -- the room in which it is
  room_id uuid,
  -- Whoever reads there, each person once. Null: more than can be named, the whole org or whoever else is in a closed
  -- room whose members were never listed whole. Empty: nobody, so nothing may be posted there.
  people uuid[],
  -- The rooms in which all of them were members at the same time, and when that was. Where not all of them can be
  -- named: the room itself alone, while those were there who can.
  rooms uuid[],
  spans tstzmultirange[]
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

-- Look up once, for a transaction that has just stated its place, who reads there and what all of them heard. Returns
-- whether anybody reads there.
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

-- Parts of it, each asked once a statement.
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

-- Whether all who read at the place know of a presence: it is in an open room, or was while all of them were there.
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

-- Rooms

-- What the viewer's own rows say. These are views and not functions: they are planned with the query that meets them,
-- as one look into an index, where a function makes its whole set anew for every statement.

-- The open rooms, if the viewer is somebody of the org. An operator who is bound to a place sees which rooms are open.
create view open_rooms_of_viewer with (security_barrier = true) as
select rooms.id as room_id
from rooms
where rooms.org_id = (select current_org())
  and rooms.visibility = 'open'
  -- a single value, which is looked up once
  and (
    (select reads_for_place())
    or (select true from participants where participants.org_id = current_org() and participants.id = viewer_id())
  );

grant select on open_rooms_of_viewer to roomlore_app;

-- Where the viewer was a member, and when.
create view stays_of_viewer with (security_barrier = true) as
select memberships.room_id, memberships.joined_at, memberships.left_at
from memberships
where memberships.org_id = (select current_org()) and memberships.participant_id = any ((select own_ids())::uuid[]);

grant select on stays_of_viewer to roomlore_app;

-- Whether a room is open. A function, since it is asked only where a place is stated: within the rule it would be
-- planned for every read.
create function is_open_room(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1 from rooms where rooms.org_id = current_org() and rooms.id = room and rooms.visibility = 'open'
  );
end $$;

-- Each policy asks first whether the operator reads: what follows is asked row by row.
create policy read on rooms for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id in (select room_id from open_rooms_of_viewer)
    or id in (select room_id from stays_of_viewer)
  )
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

-- Whether the viewer witnessed the presence of somebody else in a closed room: they were there together.
create function witnessed(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
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
    or witnessed(room_id, joined_at, left_at)
  )
);

create policy place_of_operator on memberships for select to roomlore_app using (
  org_id = (select current_org()) and (select reads_for_place())
);

create policy place on memberships as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and ((select place_id()) is null or place_knows(room_id, joined_at, left_at))
);

-- Messages

-- What is addressed to the viewer.
create view addressed_to_viewer with (security_barrier = true) as
select message_audience.message_id
from message_audience
where message_audience.org_id = (select current_org())
  and message_audience.participant_id = any ((select own_ids())::uuid[]);

grant select on addressed_to_viewer to roomlore_app;

-- Whether all who read at the place wrote a message or are addressed by it. It says no of a message that the viewer may
-- not read.
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

-- Whether anything is withheld in the org. It is asked once and spares what follows.
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

-- Whether what was given by a message may still be shown to the viewer: the memory is active, and the viewer may see
-- it.
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

-- The rules for messages. Each is stated once, and stands in a policy and in a view that candidate search reads,
-- because full-text and vector operators are not leakproof and would lose their indexes under a policy. By the first
-- rule a viewer reads what was said in open rooms, what was said in a closed room during a stay there, what is
-- addressed to them, and what they wrote. The likeliest reason comes first; none is looked for where an earlier one
-- holds. By the second, whoever states a place sees no more than all who read there: in an open room what was said
-- for everybody; elsewhere what was said while all of them were there, and what was whispered to each of them.
do $$
declare
  rule constant text := $rule$
    org_id = (select roomlore.current_org())
    and (
      (select roomlore.reads_for_org())
      or (
          kind in ('message', 'system')
          or kind = 'context_injection' and not is_directed and (select roomlore.viewer_is_agent())
        )
        and (
          exists (select 1 from roomlore.open_rooms_of_viewer as open where open.room_id = messages.room_id)
          or exists (
            select 1
            from roomlore.stays_of_viewer as stay
            where stay.room_id = messages.room_id
              and stay.joined_at <= messages.sent_at
              and (stay.left_at is null or messages.sent_at < stay.left_at)
          )
        )
      or kind in ('whisper', 'context_injection')
        and (not is_directed or roomlore.still_given(id))
        -- A single value and not an existence, which might be answered by reading all that is addressed to the viewer.
        and (
          select true
          from roomlore.addressed_to_viewer as addressed
          where addressed.message_id = messages.id
          limit 1
        )
      or author_id = any ((select roomlore.own_ids())::uuid[])
    )
  $rule$;
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
  execute format('create policy read on messages for select to roomlore_app using (%s)', rule);
  execute format($policy$
    create policy place on messages as restrictive for select to roomlore_app
    using (org_id = (select roomlore.current_org()) and (%s))
  $policy$, place_rule);
  -- what the viewer may read wherever it is posted
  execute format('create view messages_anywhere as select * from messages where %s', rule);
  -- what the viewer may read
  execute format('create view readable_messages as select * from messages where %s and (%s)', rule, place_rule);
end $$;

-- What requests keep from the viewer of what they could read otherwise. It tells nothing of anything else: that a
-- message is withheld tells that there is one.
create view withheld_from_viewer with (security_barrier = true) as
select withheld.message_id
from withheld
where withheld.org_id = (select current_org())
  and case
    when withheld.from_ids is null then not withheld.spared_ids && (select own_ids())::uuid[]
    else withheld.from_ids && (select own_ids())::uuid[]
  end
  and (select said.id from readable_messages as said where said.id = withheld.message_id limit 1) is not null;

grant select on withheld_from_viewer to roomlore_app;

-- Whether requests keep a message from the viewer. A function, since it is asked only where anything is withheld:
-- within the rule it would be planned for every read.
create function is_withheld(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from withheld_from_viewer where message_id = message);
end $$;

-- A restrictive policy narrows all others: what recalls reads what requests leave.
create policy recall on messages as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling()) or not (select org_withholds()) or not is_withheld(messages.id))
);

-- What the viewer may read and recall may show them. An operator who does not recall is shown all of it: to be told
-- what was left out.
create view recallable_messages as
select said.*
from readable_messages as said
where not (select exists (select 1 from withheld where withheld.org_id = current_org()))
  or (select reads_for_org() and not recalling())
  -- A single value and not an existence, which might be answered by reading all that is withheld.
  or (select true from withheld_from_viewer as kept where kept.message_id = said.id limit 1) is null;

-- Whether the viewer may read a message: for the policies of what is derived from messages.
create function can_read(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (select 1 from readable_messages where id = message);
end $$;

create policy read on message_audience for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

create policy read on revisions for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

-- A request is for its author to see.
create policy read on wishes for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or author_id = any ((select own_ids())::uuid[]))
);

-- People

-- Whether the viewer knows somebody from a room. Of those who read at the place, all must know of it as well.
create function knows(participant uuid) returns boolean
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

-- Whether the viewer may know of somebody, for the policies of what names participants.
create function can_know(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return participant = any (own_ids())
    or knows(participant)
    or exists (select 1 from readable_messages where author_id = participant);
end $$;

-- Whether the viewer may know of somebody and of another account of the same person.
create function knows_another_account(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return can_know(participant)
    and exists (
      select 1
      from merges as this
      join merges as other on other.org_id = this.org_id and other.person_id = this.person_id
      where this.org_id = current_org()
        and this.participant_id = participant
        and other.participant_id <> participant
        and can_know(other.participant_id)
    );
end $$;

-- Whoever wrote what the viewer may read is known by it, also where a whisper is all they share.
create policy read on participants for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id = any ((select own_ids())::uuid[])
    or knows(id)
    or exists (
      select 1 from messages where messages.org_id = participants.org_id and messages.author_id = participants.id
    )
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

-- Like an edge between two messages: seen by those who may know of both ends.
create policy read on merges for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or knows_another_account(participant_id))
);

-- Participants under the names the reader may call them: the operator by the current one, a viewer by that of their
-- newest message the viewer may read, or by the first one. A name that is not shown cannot be guessed.
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
        order by messages.sent_at desc, messages.native_order desc, messages.id desc
        limit 1
      ),
      participants.first_name
    )
  end as name
from participants
-- the author of holes is nobody
where participants.id <> participants.org_id;

grant select on known_participants to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Replies

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
-- One edge at most is found by us.
create unique index replies_found on replies (org_id, child_id) where method in ('mention', 'inferred');
create index replies_from on replies (org_id, child_id);
-- The surest answers come first, so that of very many only some are looked at.
create index replies_to on replies (org_id, parent_id, confidence desc, child_id, method);
create index replies_awaiting_parent on replies (org_id, room_id, parent_external_id) where parent_id is null;

grant select, insert, update, delete on replies to roomlore_app;

-- Both ends are asked at once, under the policy of messages. An edge still waiting for its parent is nobody's: its
-- vanishing would tell that an invisible parent came.
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

-- The one edge of each message that counts: what the platform says comes before what was found. It goes to something
-- said earlier that is still there and was heard by the very same people.
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

-- Whom and which rooms a message names, in its platform's own structure or by marks in its words like <@9> or <#5>:
-- those that the viewer may know, as the viewer may call them. It runs with the rights of whoever reads.
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
    join identities
      on identities.org_id = current_org()
      and identities.platform = here.platform
      and identities.account_id = said.word
      and identities.persona = ''
    join known_participants
      on known_participants.org_id = current_org() and known_participants.id = identities.participant_id
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

-- Reactions: what, how many, and who, as far as the viewer may know them.
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

-- Messages with what each answers and what it was told with, as far as the reader may see it. A subquery and not a
-- join: asked message by message it always takes the index, whatever the planner believes about the tables' sizes.
-- What the platform itself says of a message may name people, rooms and messages of which the viewer does not know:
-- that is the operator's. A listing ends with the message that fills an answer, so each says how large it is: the bytes
-- of its words and of what it was told with. The length of stored words is known without reading them.
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
-- Conversations. What is derived is seen by those who may see everything it was made from.

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
  -- why it is one of its own: nothing was said before, nobody had spoken for long, others spoke of something else, or
  -- a person said so
  boundary text not null check (boundary in ('first', 'silence', 'topic', 'person')),
  -- of its first and its newest message
  opened_at timestamptz not null,
  last_at timestamptz not null,
  -- by the pace of its room: it is open until nobody has spoken in it for so long
  quiet_after interval not null check (quiet_after > interval '0'),
  -- the label is a language model's
  is_titled boolean not null default false,
  -- the conversation as it was when a language model was asked what it is about, whatever the answer; null: not yet
  asked_state text,
  -- a person said that it was over with what had been said until then; what is said in it later opens it again
  closed_at timestamptz,
  -- the conversation as it was when rules, or a language model, last went through it; null: still to be done
  drawn_state text,
  read_state text,
  -- what broke when it was gone through; until it changes it is not tried again
  draw_error text check (draw_error <> ''),
  -- Who had spoken in a sensitive conversation when it became so: they were there, whatever is known of memberships.
  -- Whoever speaks in it later does not come in by that.
  spoken_by uuid[] not null default '{}',
  -- an operator said how sensitive it is, and only an operator says otherwise
  marked_by_operator boolean not null default false,
  -- see `memories`
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index conversations_newest on conversations (org_id, last_at desc, id);
create index conversations_of_room on conversations (org_id, room_id, last_at desc, id);
create index conversations_from_end on conversations (org_id, id_from_end);
-- what is still to be done by language models and rules
create index conversations_unasked on conversations (org_id, last_at desc, id)
  where asked_state is null and not is_named and sensitivity = 'normal';
create index conversations_undrawn on conversations (org_id, last_at desc, id) where drawn_state is null;
create index conversations_unread on conversations (org_id, last_at desc, id)
  where read_state is null and sensitivity = 'normal';
create index conversations_set_aside on conversations (org_id, id) where draw_error is not null;

grant select, insert, update, delete on conversations to roomlore_app;

-- The conversation of each message. The table is separate because disentanglement rewrites it often, and rewriting the
-- wide rows of messages costs many times more. Only operators read it: it names conversations that some viewers may
-- not see. Viewers call `conversation_of` and `said_in`.
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

grant select, insert, update, delete on placements to roomlore_app;

-- Whether the viewer may read a message and was there when it was said, however open its room is: as a member of the
-- room, or because they had spoken in its conversation when that became sensitive. Everybody who reads at the place
-- must have been there too, as a member.
create function attended(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from readable_messages as said
    where said.id = message
      and (
        reads_for_place()
        or exists (
          select 1
          from stays_of_viewer as stay
          where stay.room_id = said.room_id
            and stay.joined_at <= said.sent_at
            and (stay.left_at is null or said.sent_at < stay.left_at)
        )
        or exists (
          select 1
          from placements
          join conversations
            on conversations.org_id = placements.org_id and conversations.id = placements.conversation_id
          where placements.org_id = current_org()
            and placements.message_id = said.id
            and conversations.sensitivity = 'sensitive'
            and conversations.spoken_by && own_ids()
        )
      )
      and (
        place_id() is null
        or (place_spans())[array_position(place_rooms(), said.room_id)] @> said.sent_at
      )
  );
end $$;

-- Whether the viewer may see a conversation: everything said in it, and of a sensitive one was there when it was
-- said. A conversation without messages is the operator's.
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
          where said.id = placements.message_id and (held.sensitivity = 'normal' or attended(said.id))
          limit 1
        ) is null
    );
end $$;

create policy read on conversations for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_follow(id))
);

-- The messages of a conversation, as far as the viewer may see it. The rule is asked once and not for each.
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

-- Whether nothing was said in a room before the viewer could hear it, and before all who read at the place could. Why a
-- conversation was opened, and how long a silence is long there, rests on what was said before, and is for those who
-- heard that.
create function heard_from_the_first(room uuid) returns boolean
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
      reads_for_place()
      or exists (
        select 1
        from stays_of_viewer as stay
        where stay.room_id = room and stay.left_at is null and stay.joined_at <= first_at
      )
    )
    and (
      place_id() is null
      or coalesce(
        (place_spans())[array_position(place_rooms(), room)] @> tstzrange(first_at, null), false
      )
    );
end $$;

-- Who has spoken in a conversation. Nobody speaks in erased places.
create function speakers(org uuid, conversation uuid) returns uuid[]
  language sql stable set search_path = roomlore, pg_temp
  return array(
    select distinct messages.author_id
    from placements
    join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
    where placements.org_id = org
      and placements.conversation_id = conversation
      and messages.kind in ('message', 'whisper')
      and messages.erased_at is null
    order by messages.author_id
  );

-- Whether a conversation is over: nobody has spoken in it for long, or somebody closed it since.
create function is_over(held conversations, at timestamptz) returns boolean
  language sql stable
  return held.last_at + held.quiet_after <= at or coalesce(held.closed_at >= held.last_at, false);

-- Where the label of a conversation is from. It is read like a column: conversations.label_by.
create function label_by(held conversations) returns text
  language sql immutable
  return case
    when held.is_named then 'person'
    when held.is_titled and held.label <> '' then 'language model'
    else 'words'
  end;

-- A conversation as it is now. Another text, name or message makes another state.
create function conversation_state(org uuid, conversation uuid) returns text
  language sql stable
  return (
    select md5(
      string_agg(
        concat_ws(' ', messages.id, md5(messages.author_name), md5(messages.body)), ',' order by messages.id
      )
    )
    from placements
    join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
    where placements.org_id = org and placements.conversation_id = conversation
  );

-- A conversation as extractors find it. Another sensitivity, too, makes another state.
create function drawing_state(held conversations) returns text
  language sql stable
  return held.sensitivity || ' ' || conversation_state(held.org_id, held.id);

-- Whether what a language model said of a conversation still counts: it is as it was, and nobody has taken the label
-- away.
create function still_asked(held conversations) returns boolean
  language sql stable
  return case
    when held.asked_state is null or (held.is_titled and held.label = '') then false
    else held.asked_state = conversation_state(held.org_id, held.id)
  end;

---------------------------------------------------------------------------------------------------
-- Memories

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
  -- what took its place; null while it is active
  superseded_by uuid,
  -- of its content
  words tsvector not null generated always as (to_tsvector('english'::regconfig, content)) stored,
  -- in a few words; empty where the content is short enough
  title text not null default '',
  importance real not null default 3 check (importance between 1 and 5),
  confidence real not null default 1 check (confidence between 0 and 1),
  -- since when it is true, as far as known: when the first of its sources was said
  valid_from timestamptz not null default now(),
  -- put aside by a person: neither recalled nor drawn again
  archived_at timestamptz,
  -- the work it belongs to, by whatever name that goes elsewhere
  task_id text check (task_id <> ''),
  -- of what it is the one value: a later memory of the same circle and slot takes its place
  slot text check (slot <> ''),
  -- where it was asserted
  asserted_in uuid,
  -- Of whom and for whom it is. Only memories of one circle say the same, or take each other's place unasked. One of
  -- its own where that is not told.
  circle text not null default md5(gen_random_uuid()::text),
  -- of the content, whatever its case, spacing and small words; two of one digest say the same
  digest text not null default md5(gen_random_uuid()::text),
  status text not null generated always as (
    case when superseded_by is not null then 'deprecated' when archived_at is not null then 'archived' else 'active' end
  ) stored,
  -- sensitive only because a conversation that it rests on is
  is_hushed boolean not null default false,
  -- of one that rests on no message: for the whole org, or for whoever asserted it alone
  audience text not null default 'self' check (audience in ('org', 'self')),
  -- as whoever asserted it gave it
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  -- People name a memory, a conversation, a key, a receipt or a wish by the end of its id: ids that were made together
  -- begin alike and end at random. The id from its end on is a column: a comparison of columns may use an index under
  -- row-level security, and a function of a column may not.
  id_from_end uuid not null generated always as (reverse(replace(id::text, '-', ''))::uuid) stored,
  primary key (org_id, id),
  foreign key (org_id, asserted_by) references participants (org_id, id),
  foreign key (org_id, superseded_by) references memories (org_id, id),
  foreign key (org_id, asserted_in) references rooms (org_id, id),
  check (superseded_by <> id),
  check (not is_hushed or sensitivity = 'sensitive')
);

create index memories_superseded on memories (org_id, superseded_by) where superseded_by is not null;
create index memories_words on memories using gin (words);
-- The same is remembered once: whoever adds a memory holds a lock and looks. There is no constraint, because what is
-- erased may let two be active again that others had taken the place of.
create index memories_saying on memories (org_id, circle, digest) where status = 'active';
create index memories_slots on memories (org_id, circle, slot) where status = 'active' and slot is not null;
create index memories_of_task on memories (org_id, task_id) where task_id is not null;
create index memories_by_time on memories (org_id, valid_from, id);
create index memories_from_end on memories (org_id, id_from_end);

grant select, insert, update, delete on memories to roomlore_app;

-- The messages that a memory rests on.
create table memory_sources (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  message_id uuid not null,
  -- the words of the message that it rests on; null: all of them
  quote_start integer check (quote_start >= 0),
  quote_end integer,
  -- what drew it from these words: 'rules' or the name of a language model; null where somebody said that it rests on
  -- them
  drawn_by text,
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
  -- who stated it, whom it is about, who else it names, through whose eyes it was seen
  role text not null check (role in ('author', 'subject', 'involved', 'perspective')),
  primary key (org_id, memory_id, participant_id, role),
  foreign key (org_id, memory_id) references memories (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id)
);

create index memory_participants_of_participant on memory_participants (org_id, participant_id);
-- What an agent remembers is found by whose memory it is.
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

-- A person said that a memory stands beside others of its slot that say something else.
create table partings (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  -- of the content of what took its place before
  digest text not null,
  primary key (org_id, memory_id, digest),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

grant select, insert, update, delete on partings to roomlore_app;

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

-- Whether the viewer may be told a memory: of every source they may read it, of a sensitive one they were there when it
-- was said, and no request keeps it from them. What rests on no message is for whoever asserted it, or for everybody of
-- the org; it is told only where all who read are among those. A memory that was superseded is not there for those who
-- may not see what took its place: to them it would still stand. A memory that was put aside is for those it concerns.
-- An operator who does not recall sees every memory. The loop also ends where memories were put in each other's place.
create function can_recall(memory uuid) returns boolean
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
      if not (
          place_id() is null
          or place_is_of(held.asserted_by)
          or (held.audience = 'org' and place_has_readers())
        )
        or not (
          sees_all
          or (
            coalesce(held.asserted_by = any (own_ids()), false)
            or (held.audience = 'org' and (viewer_is_participant() or reads_for_place()))
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

create policy read on memory_tags for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(memory_id))
);

-- An operator who recalls is held to requests like everybody. Others are by what they may see anyway.
create policy recall on memories as restrictive for select to roomlore_app using (
  org_id = (select current_org()) and (not (select recalling() and viewer_is_operator()) or can_recall(memories.id))
);

create policy recall on memory_sources as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling() and viewer_is_operator()) or can_recall(memory_sources.memory_id))
);

create policy recall on memory_participants as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling() and viewer_is_operator()) or can_recall(memory_participants.memory_id))
);

create policy recall on memory_tags as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling() and viewer_is_operator()) or can_recall(memory_tags.memory_id))
);

-- A policy asks for each row whether the memory may be seen: of a memory that rests on fifty messages fifty times, each
-- time of all fifty. The two functions below ask once for each memory.

-- What memories rest on, whom they name and what marks them: one row for each message that one rests on, each
-- participant it names whom the viewer may know, and each tag.
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
-- Newest are those true since last, and not those recorded last: what is imported later may have been said earlier. A
-- page goes on behind a time and an id, so the memory that it goes on behind need not be there any more. What narrows
-- is looked at first. Whether a memory may be seen is asked of what is left, as far as it is wanted. Nobody is named
-- by it whom the viewer may not know.
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
      array(select one.id from unnest(asked.ids) as one (id) where viewer_is_operator() or can_know(one.id)) as ids
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
    order by held.valid_from desc, held.id desc
    offset 0
  ) as meant
  cross join lateral (select 1 where can_recall(meant.id) offset 0) as seen
  order by meant.valid_from desc, meant.id desc
  limit wanted
$$;

---------------------------------------------------------------------------------------------------
-- Agents: whom they met, what they remember, what they were given

-- One exchange between an agent and another participant of the same conversation. An agent's relationship with a
-- participant is the sum of these rows. The rows of a conversation are rewritten when it changes, so nothing counts
-- twice, and removed messages do not count.
create table encounters (
  org_id uuid not null references orgs,
  conversation_id uuid not null,
  agent_id uuid not null,
  participant_id uuid not null,
  -- how many messages of theirs the conversation has
  messages integer not null check (messages > 0),
  -- how often the agent answered them, and they the agent
  answered integer not null check (answered >= 0),
  answers integer not null check (answers >= 0),
  -- how often some other human agreed with them, or set them right
  confirmed integer not null check (confirmed >= 0),
  corrected integer not null check (corrected >= 0),
  -- when they last spoke in it
  last_at timestamptz not null,
  primary key (org_id, conversation_id, agent_id, participant_id),
  foreign key (org_id, conversation_id) references conversations (org_id, id) on delete cascade,
  foreign key (org_id, agent_id) references participants (org_id, id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check (agent_id <> participant_id)
);

create index encounters_of_agent on encounters (org_id, agent_id, participant_id);
create index encounters_with_participant on encounters (org_id, participant_id);

grant select, insert, update, delete on encounters to roomlore_app;

-- The agent's own, as far as it may see the whole conversation from which it was counted.
create policy read on encounters for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and can_know(participant_id) and can_follow(conversation_id))
  )
);

-- Whether a message that answers another agrees with it: by how it begins.
create function agrees(body text) returns boolean
  language sql immutable parallel safe
  return left(btrim(body), 40) ~* (
    '^(\+1\M|(yes|yep|yeah)?[ ,]*(agreed|i agree|exactly|that works|works for me|sounds good|good (catch|point|idea)'
    '|thanks|thank you|thx|you''?re right|that''?s (right|correct|it)|correct|confirmed|makes sense|perfect)\M)'
  );

-- Whether a message that answers another sets it right: by how it begins. Who takes back or mends what they said
-- themselves sets nobody else right.
create function corrects(body text) returns boolean
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

-- Memories that were injected into a room for an agent. Each row names the memory, the agent and the message that
-- carries the memory. A memory is injected once until the room is compacted. A row is deleted with its message.
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

grant select, insert, update, delete on injections to roomlore_app;

-- The agent's own, as long as it may see what it was given.
create policy read on injections for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and still_given(message_id))
  )
);

---------------------------------------------------------------------------------------------------
-- Vectors

-- Vectors of messages. Each partition has an HNSW index of its own, so that one index spans few orgs.
create table message_embeddings (
  org_id uuid not null,
  message_id uuid not null,
  room_id uuid not null,
  model text not null,
  embedding halfvec not null,
  -- The signs of each token's vector, 48 bytes for each token. Null: made when there were none to have, or by a model
  -- that gives none. What is written is never shorter than 1,248 bytes, filled up with zeros, for only a row of more
  -- than 2,000 is split: so it always lies outside, and a scan of vectors reads no more than before. Signs do not
  -- compress.
  tokens bytea storage external,
  primary key (org_id, message_id, model),
  foreign key (org_id, message_id) references messages (org_id, id)
) partition by hash (org_id);

create table message_embeddings_0 partition of message_embeddings for values with (modulus 4, remainder 0);
create table message_embeddings_1 partition of message_embeddings for values with (modulus 4, remainder 1);
create table message_embeddings_2 partition of message_embeddings for values with (modulus 4, remainder 2);
create table message_embeddings_3 partition of message_embeddings for values with (modulus 4, remainder 3);

-- dense search inside rooms, exact
create index message_embeddings_in_room on message_embeddings (org_id, model, room_id);

-- Partitions are reached through their parent only.
grant select, insert, update, delete on message_embeddings to roomlore_app;

create policy read on message_embeddings for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_read(message_id))
);

-- The vectors of memories. Message vectors have their own table, because they also hold a room and token vectors.
-- There are few memory vectors, so a search compares each of them.
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
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(memory_id))
);

create policy recall on memory_embeddings as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling() and viewer_is_operator()) or can_recall(memory_id))
);

-- The embedding models of an org, one row for each state: the model that searches read, the next one while it is built,
-- and the previous one, which allows a quick return. An org without rows uses the default model.
create table generations (
  org_id uuid not null references orgs,
  state text not null check (state in ('current', 'next', 'previous')),
  -- as settings name it: how it is reached is theirs to say, and no key is ever stored
  provider text not null,
  -- the name of its vector space and the length of its vectors; null until it has been reached
  model text,
  dimensions integer check (dimensions between 1 and 16000),
  since timestamptz not null default now(),
  -- since when it gives no vectors, and why
  failing_since timestamptz,
  error text,
  primary key (org_id, state)
);

grant select, insert, update, delete on generations to roomlore_app;

-- The messages that are to have a vector: what was said in words. In a room that embeds exchanges it is only what does
-- not answer such a message, heard by the very same people and said earlier, which then carries it. The operator asks:
-- nobody else sees every edge.
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

-- The memories that are to have a vector: all but what a person put aside. What was superseded can be found as history.
create view embeddable_memories with (security_invoker = true) as
select memories.org_id, memories.id, memories.content
from memories
where memories.status <> 'archived';

grant select on embeddable_memories to roomlore_app;

-- Whatever is to have a vector, messages and memories. No message has the id of a memory.
create view embeddable with (security_invoker = true) as
select org_id, id from embeddable_messages
union all
select org_id, id from embeddable_memories;

grant select on embeddable to roomlore_app;

-- Whatever has a vector: of which model, and whether all is there that the model gives for it.
create view embedded with (security_invoker = true) as
select org_id, message_id as id, model, tokens is not null as has_tokens from message_embeddings
union all
-- nothing compares a memory token by token
select org_id, memory_id, model, true from memory_embeddings;

grant select on embedded to roomlore_app;

-- The lengths of vectors that can have an approximate index: those of common models. An index knows the length of
-- what it holds, and a plan that of what it compares. Of any other length every vector is looked at.
create function indexed_lengths() returns integer[]
  language sql immutable
return array[384, 512, 768, 1024, 1536, 2048, 3072];

-- Build the approximate index of one partition, for one length of vectors, that has become worth it and is not there.
-- Returns how many were built. Worth it: some org has so many vectors of that length of one model, for a search stays
-- inside both. Reads go on while an index is built. Whoever writes vectors of that partition waits: the embedding
-- worker, and edits and redactions, which drop vectors. Hence one index a transaction, and no lock is asked for
-- before it is known that there is something to build.
create function build_vector_indexes(worth_it bigint) returns integer
  language plpgsql volatile security definer set search_path = roomlore, public, pg_temp
  -- What does not fit is built many times as slowly; 200,000 vectors of 384 numbers take some 220 MB.
  set maintenance_work_mem = '512MB'
as $$
declare
  part regclass;
  lengths integer[];
  length integer;
begin
  for part in
    select inhrelid from pg_inherits where inhparent = 'message_embeddings'::regclass and speaks_for_nobody()
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
-- `recallable_messages`, which states the whole rule, or asks `can_recall`. None returns a message's text. What is
-- counted is counted among what the viewer may read. Plans of searches among messages are made once a session,
-- whatever the parameters: the rule is long, and planning it anew for each search takes milliseconds.

-- Where to look. Null in any field means everywhere.
create type search_scope as (
  rooms uuid[],
  authors uuid[],
  author_kinds text[],
  conversations uuid[],
  -- only what is answered, or only what is not
  is_answered boolean,
  since timestamptz,
  until timestamptz,
  -- nothing that stands after this place in the order of its room
  last_at timestamptz,
  last_order bigint,
  last_id uuid
);

grant usage on type search_scope to roomlore_app;

-- How many messages lie in a scope. It chooses between exact scan and index, and is never shown.
create function scope_size(rooms uuid[]) returns bigint
  language sql stable security definer set search_path = roomlore, pg_temp
  return (
    select coalesce(sum(message_count), 0)::bigint
    from activity
    where activity.org_id = (select current_org()) and (rooms is null or activity.room_id = any (rooms))
  );

-- Any of these words; null where there are none. A lexeme may hold what means something in a query.
create function any_word(variadic lexemes text[]) returns tsquery
  language sql immutable parallel safe
  return (
    select string_agg(format($word$'%s'$word$, replace(replace(one.lexeme, $$\$$, $$\\$$), $$'$$, $$''$$)), ' | ')
    from unnest(lexemes) as one (lexeme)
    where one.lexeme <> ''
  )::tsquery;

-- The messages among which a filter lets one look, where these are few beside what lies in the rooms: in some
-- conversations, else by some authors, else in a stretch of time. Visible or not, so for the functions below only. Null
-- where there is no such filter, or it leaves too many: each costs some four times what a vector costs in a scan.
create function narrowed(scope search_scope) returns uuid[]
  language plpgsql stable set search_path = roomlore, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
  since constant timestamptz := coalesce((scope).since, '-infinity');
  until constant timestamptz := coalesce((scope).until, 'infinity');
  -- up to the last message is no stretch: it is everything, as it was then
  is_stretch constant boolean := (scope).since is not null or until < coalesce((scope).last_at, 'infinity');
  most bigint;
  found uuid[];
begin
  if (scope).conversations is null and (scope).authors is null and not is_stretch then
    return null;
  end if;
  most := least(20000, scope_size((scope).rooms) / 4);
  if (scope).conversations is not null then
    found := array(
      select placements.message_id
      from placements
      where placements.org_id = current_org() and placements.conversation_id = any ((scope).conversations)
      limit most + 1
    );
  elsif (scope).authors is not null then
    found := array(
      select messages.id
      from messages
      where messages.org_id = current_org()
        and messages.author_id = any ((scope).authors)
        and ((scope).rooms is null or messages.room_id = any ((scope).rooms))
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
      where rooms.org_id = current_org() and ((scope).rooms is null or rooms.id = any ((scope).rooms))
      limit most + 1
    );
  end if;
  return case when cardinality(found) <= most then found end;
end $$;

-- The four functions that propose messages: `nearest_exact`, `nearest_indexed`, `best_worded`, `surroundings`. They
-- share the filter and the ways to look, which are written once here and put into each. loads the extension, so that
-- its settings are known below

do $$
declare
  -- nothing that was said after the last message
  said_by constant text := $said_by$
    (
      (scope).last_id is null
      or (said.sent_at, said.native_order, said.id) <= ((scope).last_at, (scope).last_order, (scope).last_id)
    )
  $said_by$;
  -- nothing that was not yet said
  by_then constant text := $by_then$
    ((scope).until is null or said.sent_at < (scope).until) and
  $by_then$ || said_by;
  fits constant text := by_then || $fits$
    and ((scope).rooms is null or said.room_id = any ((scope).rooms))
    and ((scope).authors is null or said.author_id = any ((scope).authors))
    and ((scope).author_kinds is null or said.author_kind = any ((scope).author_kinds))
    and ((scope).since is null or said.sent_at >= (scope).since)
    and ((scope).conversations is null or conversation_of(said.id) = any ((scope).conversations))
    and (
      (scope).is_answered is null
      -- as `exchange_edges` has it: of what a message answers, only what the viewer may read counts
      or (scope).is_answered = exists (
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
                or edge.method = 'mention' and edge.confidence >= real '0.8' and position('?' in said.body) > 0
              )
              and not exists (
                select 1
                from replies as stated
                join recallable_messages as parent on parent.id = stated.parent_id
                where stated.org_id = edge.org_id
                  and stated.child_id = edge.child_id
                  and (stated.method = 'explicit' or stated.method = 'thread' and edge.method = 'mention')
              )
          )
      )
    )
    and said.redacted_at is null
    and said.kind in ('message', 'whisper')
  $fits$;
  -- what of a scope matches some words, by the name of a variable
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
          and (scope).rooms is null
          and said.org_id = (select current_org())
          and said.words @@ %2$s
          and %1$s
        union all
        select said.id, said.words, length(said.words) as size
        from unnest((scope).rooms) as asked_room (id)
        cross join lateral (
          select * from recallable_messages as inside where inside.room_id = asked_room.id and inside.words @@ %2$s
        ) as said
        where few_ones is null and %1$s
  $matches$;
  -- what is nearest of few
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
  inside constant text := 'and vectors.room_id = any ((scope).rooms)';
  -- what is nearest, every vector looked at
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
  -- what is nearest, in the order of the index of a length
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
          -- with a limit, or a planner may begin with messages, and the order of the index is lost
          select 1 from recallable_messages as said where said.id = near.message_id and %1$s limit 1
        ) as readable
        limit wanted;
  $walked$;
  -- a plan knows the length of what it compares: there is one for each
  walks text := '';
  length integer;
begin
  foreach length in array indexed_lengths() loop
    walks := walks || format(
      'elsif vector_dims(query) = %1$s and (scope).rooms is null then %2$s
      elsif vector_dims(query) = %1$s then %3$s ',
      length, format(walked, fits, '', length), format(walked, fits, inside, length)
    );
  end loop;

  -- Nearest messages by exact scan. Distances first, visibility in their order until enough are found: far fewer
  -- messages are looked at than lie in the scope.
  execute format($create$
    create function nearest_exact(query halfvec, wanted_model text, scope search_scope, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      -- to start a second process takes as long as the scan of a small room
      set max_parallel_workers_per_gather = 0
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
    begin
      if few_ones is not null then
        %1$s
      elsif (scope).rooms is null then
        %2$s
      else
        %3$s
      end if;
    end $body$
  $create$, format(picked, fits), format(scanned, fits, ''), format(scanned, fits, inside));

  -- Nearest messages through the index. Iterative scan is off by default and would silently lose rows.
  execute format($create$
    create function nearest_indexed(query halfvec, wanted_model text, scope search_scope, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      set hnsw.iterative_scan = 'relaxed_order' set hnsw.ef_search = 100 set hnsw.max_scan_tuples = 200000
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
    begin
      if few_ones is not null then
        %1$s
      %2$s
      end if;
    end $body$
  $create$, format(picked, fits), walks);

  -- The messages that share most with what is asked, by words alone, with the words of the question and how rare each
  -- is: ln(1 + n / df), n the sum of all df, among what the viewer may read. Of a scope so large that common words
  -- would fetch a great part of it only a sample is counted, and common words count together only.
  execute format($create$
    create function best_worded(question text, scope search_scope, is_large boolean, wanted integer)
      returns table (lexemes text[], rarities double precision[], message_ids uuid[])
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set plan_cache_mode = force_generic_plan
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
      few constant integer := 800;
      enough constant integer := 100;
      most constant integer := 500;
      -- what more messages have tells next to nothing, not even together with another word
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
      -- of words that are common, two together; the others where these are too few
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
                and ((scope).rooms is null or said.room_id = any ((scope).rooms))
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

  -- What stands around messages in their rooms, each once, in the order of the rooms: whether it directly follows the
  -- one before it here, how long it is, how often it has each word, how near it is, and whether it may be returned
  -- itself. What was said next to a find tells what it is about, even if it was said by somebody else.
  execute format($create$
    create function surroundings(
      seeds uuid[], lexemes text[], query halfvec, wanted_model text, scope search_scope, reach integer
    )
      returns table (
        message_id uuid, author_name text, follows boolean, size integer, counts integer[],
        similarity double precision, fits boolean
      )
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
    as $body$
    declare
      shared constant tsquery := any_word(variadic lexemes);
    begin
      return query
      with placed as materialized (
        select said.id, said.room_id, said.sent_at, said.native_order
        from unnest(seeds) as seed (id)
        cross join lateral (
          select * from recallable_messages as one where one.id = seed.id limit 1
        ) as said
      ),
      windows as (
        select
          around.*,
          lag(around.id) over (
            partition by placed.id order by around.sent_at, around.native_order, around.id
          ) as before_id
        from placed
        cross join lateral (
          (
            select said.id, said.room_id, said.sent_at, said.native_order, said.author_name, said.words, %1$s as lies_in
            from recallable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.native_order, said.id) < (placed.sent_at, placed.native_order, placed.id)
              and said.kind in ('message', 'whisper')
            order by said.sent_at desc, said.native_order desc, said.id desc
            limit reach
          )
          union all
          (
            select said.id, said.room_id, said.sent_at, said.native_order, said.author_name, said.words, %1$s as lies_in
            from recallable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.native_order, said.id) >= (placed.sent_at, placed.native_order, placed.id)
              and said.kind in ('message', 'whisper')
              and %2$s
            order by said.sent_at, said.native_order, said.id
            limit reach + 1
          )
        ) as around
      ),
      once as (
        select distinct on (windows.room_id, windows.sent_at, windows.native_order, windows.id) windows.*
        from windows
        order by windows.room_id, windows.sent_at, windows.native_order, windows.id, windows.before_id nulls last
      )
      select
        once.id,
        once.author_name,
        coalesce(
          once.before_id = lag(once.id) over (order by once.room_id, once.sent_at, once.native_order, once.id), false
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
      order by once.room_id, once.sent_at, once.native_order, once.id;
    end $body$
  $create$, fits, by_then);
end $$;

-- The token vectors of messages that the viewer may read. It runs as the owner because the policy would ask its rule
-- row by row in a function of its own, which takes several times longer.
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

-- The memories that share the rarest words with a question, among those that the viewer may see; what is counted is
-- counted among these. What was put aside is not found. Of a long question the first words are looked for.
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
      and held.status <> 'archived' and can_recall(held.id)
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

-- The memories whose vectors are nearest, among those that the viewer may see: distances first, the rule in their order
-- until enough are found. What was put aside is not found. The rule is a function, and dear. What takes a small part of
-- its time is looked at before: whether the sources can be read, without which nobody sees a memory, and whom a memory
-- without sources is for.
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
        or held.asserted_by = any (own_ids()) or held.audience = 'org'
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

-- How much of its weight a memory of that age still has: all of it for thirty days, then half as much after every
-- further thirty, and never less than a quarter.
create function freshness(age interval) returns double precision
  language sql immutable parallel safe
  return greatest(
    0.25,
    power(0.5, greatest(extract(epoch from age)::float8 / (30 * 86400) - 1, 0))
  );

-- What is looked for among the memories of an agent. Null in any field means all.
create type experience_scope as (
  kinds text[],
  -- with any of these tags
  tags text[],
  task_id text,
  -- that name any of these, in whatever role but as the one who remembers
  people uuid[],
  -- about the same, or weighty whatever is talked about
  topic text,
  -- only such as belong to a task, or such as belong to none
  is_of_task boolean,
  -- the newest first, whatever weight they have
  is_newest_first boolean,
  -- true since then at the earliest
  since timestamptz,
  at timestamptz
);

-- The active memories of what some accounts of one agent saw, as far as the viewer may see them: first what is about
-- the topic, the weightiest first, or else the newest. Each is asked about only until enough are found.
create function experiences(agents uuid[], scope experience_scope, wanted integer)
returns table (memory_id uuid, weight double precision, fits boolean)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  with asked as materialized (
    select array_agg(lexeme) as lexemes, any_word(variadic array_agg(lexeme)) as query
    from unnest(to_tsvector('english'::regconfig, coalesce((scope).topic, '')))
  ),
  own as materialized (
    select distinct seen.memory_id
    from unnest(agents) as agent (id)
    join memory_participants as seen
      on seen.org_id = current_org() and seen.participant_id = agent.id and seen.role = 'perspective'
    where can_know(agent.id)
  )
  select ranked.id, ranked.weight, ranked.fits
  from (
    select
      held.id, weighed.weight, about.fits, held.valid_from,
      about.fits and (scope).is_newest_first is not true as comes_first,
      case when (scope).is_newest_first then 0 else weighed.weight end as rank
    from own
    join memories as held on held.org_id = current_org() and held.id = own.memory_id
    cross join asked
    cross join lateral (select held.importance * freshness((scope).at - held.valid_from) as weight) as weighed
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
        ) as fits
    ) as about
    where held.status = 'active'
      and ((scope).kinds is null or held.kind = any ((scope).kinds))
      and ((scope).task_id is null or held.task_id = (scope).task_id)
      and ((scope).is_of_task is null or (scope).is_of_task = (held.task_id is not null))
      and (
        (scope).tags is null
        or exists (
          select 1
          from memory_tags
          where memory_tags.org_id = held.org_id
            and memory_tags.memory_id = held.id
            and memory_tags.tag = any ((scope).tags)
        )
      )
      and (
        (scope).people is null
        or exists (
          select 1
          from memory_participants as named
          where named.org_id = held.org_id
            and named.memory_id = held.id
            and named.role <> 'perspective'
            and named.participant_id = any ((scope).people)
        )
      )
      and ((scope).since is null or held.valid_from >= (scope).since)
      -- more than a learning weighs by default, as much as an insight does
      and (about.fits or held.importance > 4)
    order by comes_first desc, rank desc, held.valid_from desc, held.id desc
    offset 0
  ) as ranked
  cross join lateral (select 1 where can_recall(ranked.id) offset 0) as seen
  order by ranked.comes_first desc, ranked.rank desc, ranked.valid_from desc, ranked.id desc
  limit wanted
$$;

-- Which memories an agent has, in a number that changes with any that comes or goes. It tells the agent and operators
-- whether what was read before is still all there is, and nothing about what any of them says.
create function experience_mark(agents uuid[]) returns bigint
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
-- Language models: how much they were asked, and what they said. All of it is the operator's.

-- How much a language model was asked for an org, each purpose by itself: one that fails keeps none of another from
-- being asked.
create table asking (
  org_id uuid not null references orgs,
  day date not null,
  -- on that day
  calls integer not null check (calls >= 0),
  -- not before: a call is under way until then, or the last ones failed
  due_at timestamptz not null,
  -- since the last answer
  failures integer not null default 0 check (failures >= 0),
  -- why the last one failed, never what was said
  error text,
  purpose text not null default 'titles' check (purpose in ('titles', 'statements')),
  primary key (org_id, purpose)
);

grant select, insert, update on asking to roomlore_app;

-- How often a language model was asked about conversations of a room.
create table asked_of_rooms (
  org_id uuid not null references orgs,
  room_id uuid not null,
  day date not null,
  calls integer not null check (calls >= 0),
  primary key (org_id, room_id, day),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

grant select, insert, update, delete on asked_of_rooms to roomlore_app;

-- What a language model was shown of a conversation, and what it said. It goes with any message in it.
create table readings (
  org_id uuid not null references orgs,
  id uuid not null,
  room_id uuid not null,
  -- may be gone since
  conversation_id uuid not null,
  -- its name
  language_model text not null,
  -- of all that was sent: the same is asked once
  digest text not null,
  instructions text not null,
  material text not null,
  asked_at timestamptz not null,
  -- null while nothing came back
  answered_at timestamptz,
  answer text,
  -- why nothing came back
  error text,
  -- whether it was asked before, so that the earlier answer was taken
  is_repeated boolean not null default false,
  -- where the server says
  sent_tokens integer,
  answer_tokens integer,
  -- what it stated, and of each statement what became of it and why
  verdicts jsonb,
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index readings_same on readings (org_id, digest) where answer is not null;
create index readings_of_conversation on readings (org_id, conversation_id, id);

grant select, insert, update, delete on readings to roomlore_app;

-- The messages that a reading shows.
create table reading_messages (
  org_id uuid not null references orgs,
  message_id uuid not null,
  reading_id uuid not null,
  primary key (org_id, message_id, reading_id),
  foreign key (org_id, message_id) references messages (org_id, id),
  foreign key (org_id, reading_id) references readings (org_id, id)
);

create index reading_messages_of_reading on reading_messages (org_id, reading_id);

grant select, insert, update, delete on reading_messages to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Access and audit

create table api_keys (
  org_id uuid not null references orgs,
  id uuid not null,
  name text not null check (name <> ''),
  role text not null check (role in ('operator', 'agent', 'member')),
  -- with whose eyes; null for operators
  participant_id uuid,
  -- SHA-256 of the key, which is 256 random bits: nothing slower is needed
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
  -- the author of holes is nobody's account
  check (participant_id <> org_id)
);

create index api_keys_of_participant on api_keys (org_id, participant_id) where participant_id is not null;
create index api_keys_from_end on api_keys (org_id, id_from_end);

grant select, insert, delete on api_keys to roomlore_app;
grant update (revoked_at) on api_keys to roomlore_app;

-- Whose key this is, to a transaction that has no viewer; nothing for one that is unknown, expired or revoked.
create function sign_in(org uuid, wanted bytea) returns table (key_id uuid, role text, participant_id uuid)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select api_keys.id, api_keys.role, api_keys.participant_id
  from api_keys
  where api_keys.org_id = org
    and api_keys.digest = wanted
    and api_keys.revoked_at is null
    and (api_keys.expires_at is null or api_keys.expires_at > now())
    and speaks_for_nobody();
end;

-- Who read or changed what; never what was said, asked or answered. It holds ids only, so it references nothing.
create table activity_log (
  org_id uuid not null references orgs,
  id uuid not null,
  at timestamptz not null default clock_timestamp(),
  -- null: without a key
  key_id uuid,
  -- null: the operator
  viewer_id uuid,
  action text not null check (action ~ '^[a-z][a-z ]{0,39}$'),
  outcome text not null check (outcome in ('done', 'refused')),
  -- rooms, messages, participants, memories that were shown or changed
  subject_ids uuid[] not null default '{}',
  -- how long a search, an answer or a context took
  took_ms real check (took_ms >= 0),
  primary key (org_id, id)
);

-- the newest of these, for the operator's numbers
create index activity_log_timed on activity_log (org_id, id) where took_ms is not null;

-- It is append-only: it has no policy `change`. The server says when.
grant select on activity_log to roomlore_app;
grant insert (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms) on activity_log to roomlore_app;

create policy read on activity_log for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

create policy append on activity_log for insert to roomlore_app with check (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = (select viewer_id()))
);

-- What was asked for under a key of the caller's own, so that asking again does nothing again.
create table idempotency (
  org_id uuid not null references orgs,
  -- of who asked and of the key they gave: SHA-256, so that neither is kept
  digest bytea not null check (length(digest) = 32),
  -- of what was asked for
  request bytea not null check (length(request) = 32),
  -- tells apart who holds it
  claim uuid not null,
  claimed_at timestamptz not null,
  -- null: under way, or nobody knows what became of it
  status smallint,
  -- Null where it holds words, or a secret. Words are read anew where they stand; a secret is told once.
  body bytea,
  -- where what was made is read again
  place text,
  primary key (org_id, digest),
  check (status is not null or (body is null and place is null))
);

create index idempotency_by_age on idempotency (org_id, claimed_at);

grant select, insert, update, delete on idempotency to roomlore_app;

---------------------------------------------------------------------------------------------------
-- Erasure: what was removed and stays removed

-- Whatever a removed account said or was called before its erasure is not taken in again. Only a digest of the
-- account is kept, to recognise it.
create table erased_accounts (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert, delete on erased_accounts to roomlore_app;

-- The words by which erased persons were called, as digests only, so that nothing that is derived says them again.
create table erased_names (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert on erased_names to roomlore_app;

-- Whatever was said in a room in these times is not taken in again.
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

-- Rooms that were erased whole. Only a digest of how the platform names one is kept, so that nothing of it is taken in
-- again.
create table erased_rooms (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

grant select, insert, delete on erased_rooms to roomlore_app;

-- What an erasure removed and kept. It holds ids only: it outlives what it tells about, so it references nothing.
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
  -- who asked for it; both null: the operator without a key
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
-- The check that reads again comes after the erasure.
grant update (checks, checked_at) on receipts to roomlore_app;

create policy read on receipts for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

---------------------------------------------------------------------------------------------------
-- Work and changes. All of it is the operator's.

-- What is still to be done. It is written in the transaction that makes it necessary.
create table work (
  -- the org of the subject, in whose transaction the row is written
  org_id uuid not null,
  stage text not null check (
    stage in ('embed', 'untangle', 'interact', 'inject', 'qdrant', 'neo4j', 'reembed', 'listen')
  ),
  subject_id uuid not null,
  -- grows with each change of the subject: work done for an older one does not count
  version integer not null default 1,
  -- how often it was taken since anything came of it: what was taken and never finished may have killed its worker, or
  -- only have been near when one was killed
  attempts integer not null default 0,
  -- how often it ended in an error
  failures integer not null default 0,
  -- when it may be taken next; a taken row is pushed ahead by its lease
  due_at timestamptz not null default now(),
  error text,
  set_aside_at timestamptz,
  -- since when it has been waiting
  asked_at timestamptz not null default now(),
  -- Untangling goes through rooms: from when to when something has changed there. What a worker has taken stands apart
  -- from what has come since, so that neither is lost when it dies.
  since timestamptz,
  until timestamptz,
  taken_since timestamptz,
  taken_until timestamptz,
  taking uuid,
  -- what an answer of an agent's answers, of which it is to be seen whether it is worth remembering
  trigger_id uuid,
  primary key (org_id, stage, subject_id),
  check ((since is null) = (until is null)),
  check ((taken_since is null) = (taken_until is null)),
  check ((stage = 'interact') = (trigger_id is not null))
);

create index work_due on work (stage, org_id, due_at) where set_aside_at is null;
create index work_by_trigger on work (org_id, trigger_id) where trigger_id is not null;
-- how long the oldest has waited
create index work_asked on work (org_id, stage, asked_at);

grant select, insert, update, delete on work to roomlore_app;

-- Take up to `total` due rows of a stage and lease them: at most `per_org` of each org, or of one org only, and none of
-- orgs whose model or server is away. A row that was taken and never finished is due again when its lease ends. What
-- ended in nothing three times is suspect and comes only when suspects are asked for. That is done one by one, at odd
-- times, so that it takes no others down with it. What ended ten workers is set aside and not given to an eleventh.
create function take_work(
  wanted_stage text, only_org uuid, per_org integer, total integer, lease interval,
  suspects boolean default false, without uuid[] default '{}'
)
  returns table (org_id uuid, subject_id uuid, version integer, attempts integer)
  language sql volatile security definer set search_path = roomlore, pg_temp
begin atomic
  with due_orgs as (
    select orgs.org_id
    from orgs
    where speaks_for_nobody()
      and (only_org is null or orgs.org_id = only_org)
      and orgs.org_id <> all (without)
      and exists (
        select 1 from work
        where work.stage = wanted_stage and work.org_id = orgs.org_id
          and work.set_aside_at is null and work.due_at <= now()
          and (work.attempts >= 3) = suspects
      )
    order by random()
  ),
  taken as (
    select mine.org_id, mine.subject_id
    from due_orgs
    cross join lateral (
      select work.org_id, work.subject_id
      from work
      where work.stage = wanted_stage and work.org_id = due_orgs.org_id
        and work.set_aside_at is null and work.due_at <= now()
        and (work.attempts >= 3) = suspects
      order by work.due_at
      limit per_org
      for update skip locked
    ) as mine
    limit total
  ),
  leased as (
    update work
    set
      due_at = now() + lease * case when suspects then 1 + random() else 1 end,
      attempts = work.attempts + 1,
      set_aside_at = case when work.attempts >= 10 then now() end,
      error = case when work.attempts >= 10 then 'Unfinished' else work.error end
    from taken
    where work.org_id = taken.org_id and work.stage = wanted_stage and work.subject_id = taken.subject_id
    returning work.org_id, work.subject_id, work.version, work.attempts, work.set_aside_at
  )
  select leased.org_id, leased.subject_id, leased.version, leased.attempts
  from leased
  where leased.set_aside_at is null;
end;

-- Rows still to do and rows set aside, over all orgs or of one: numbers for the worker's own progress.
create function count_work(wanted_stage text, only_org uuid, without uuid[] default '{}')
  returns table (waiting bigint, set_aside bigint)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select count(*) filter (where work.set_aside_at is null), count(*) filter (where work.set_aside_at is not null)
  from work
  where work.stage = wanted_stage
    and (only_org is null or work.org_id = only_org)
    and work.org_id <> all (without)
    and speaks_for_nobody();
end;

-- The workers that ran recently. Operators see from it whether work is being done. A worker serves all orgs, and writes
-- one row for each org that it visits.
create table heartbeats (
  org_id uuid not null references orgs,
  worker_id uuid not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  primary key (org_id, worker_id)
);

grant select, insert, update, delete on heartbeats to roomlore_app;

-- An id that sorts by time (RFC 9562, version 7), from the server's clock.
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

-- The outbox: one row for each transaction, room and kind of change, written in the same transaction as the change.
-- Event streams and indexes read it in the order (xid, id), and only where xid is below every running transaction. So
-- a reader misses nothing that a slower transaction commits later. Viewers cannot read it: a row would reveal that a
-- change happened.
create table changes (
  org_id uuid not null references orgs,
  id uuid not null default change_id(),
  xid xid8 not null default pg_current_xact_id(),
  -- null: of a memory that rests on nothing that was said
  room_id uuid,
  kind text not null check (
    kind in (
      'message.added', 'message.revised', 'message.redacted', 'message.erased', 'memory.kept', 'memory.changed',
      'conversation.changed'
    )
  ),
  -- Messages, memories or conversations, by kind. Ids only: who may see which is asked of the rows themselves when they
  -- are told.
  subject_ids uuid[] not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index changes_in_order on changes (org_id, xid, id);
-- what of them is to be gone
create index changes_of_room on changes (org_id, kind, room_id);

grant select, insert, update, delete on changes to roomlore_app;

-- The indexes in other servers, and which of their entries must be updated. One row for each org and kind of server.
create table projections (
  org_id uuid not null references orgs,
  target text not null check (target in ('qdrant', 'neo4j')),
  -- the copy that is read; null until the first one is whole
  copy text,
  -- whose vectors it holds, and how long they are
  model text,
  dimensions integer,
  -- The copy that is being built beside it, and a transaction that began when everybody could know of it. What others
  -- changed before was not asked for: only when they are all over is everything asked for, and that is noted.
  next_copy text,
  next_model text,
  next_dimensions integer,
  next_xid xid8,
  next_since timestamptz,
  -- grows with every reading of what is to be written, so that an older one never replaces a newer one
  turn bigint not null default 0,
  -- since when the server fails, and how
  failing_since timestamptz,
  error text,
  -- up to which subject, in the order of their ids, was asked for what the copy is to hold that is being built
  next_after uuid,
  primary key (org_id, target),
  check (copy is not null or next_copy is not null)
);

grant select, insert, update, delete on projections to roomlore_app;

-- Ask for subjects to be written to the copies of the org in some servers, once this transaction commits, and wake
-- those who do. Returns how often. Whatever a subject has become is read when it is written. A subject that was
-- erased is asked for all the same, until its copies are gone. What is being written stays with whoever has taken it,
-- and is done again afterwards: no subject is written twice at once.
create function ask_for_copies_in(targets text[], subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work (org_id, stage, subject_id)
    select projections.org_id, projections.target, subject.id
    from projections
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where projections.org_id = current_org() and projections.target = any (targets)
    order by projections.target, subject.id
    on conflict (org_id, stage, subject_id) do update
    set
      version = work.version + 1,
      failures = 0,
      error = null,
      set_aside_at = null,
      -- leased, and not waiting to be tried again
      attempts = case when work.set_aside_at is null and work.due_at > now() then work.attempts else 0 end,
      due_at = case
        when work.set_aside_at is null and work.due_at > now() and work.attempts > 0 then work.due_at
        else now()
      end
    returning work.stage
  ),
  woken as (
    select asked.stage, count(*) as size, pg_notify('roomlore_work', asked.stage) from asked group by asked.stage
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Messages are in every copy.
create function ask_for_copies(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['qdrant', 'neo4j'], subject_ids);

-- Only points have the vector of a message.
create function ask_for_points(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['qdrant'], subject_ids);

-- Only graphs hold participants, rooms, conversations and memories.
create function ask_for_nodes(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
  return ask_for_copies_in(array['neo4j'], subject_ids);

-- Ask for messages to be embedded by the next model as well, where the org has one, once this transaction commits.
-- Returns how many. Whoever asks the current model calls it: neither model waits for the other.
create function reembed(subject_ids uuid[]) returns bigint
  language sql volatile set search_path = roomlore, pg_temp
begin atomic
  with asked as (
    insert into work (org_id, stage, subject_id)
    select generations.org_id, 'reembed', subject.id
    from generations
    cross join (select distinct named.id from unnest(subject_ids) as named (id) order by named.id) as subject
    where generations.org_id = current_org() and generations.state = 'next'
    on conflict (org_id, stage, subject_id) do update
    set version = work.version + 1, attempts = 0, failures = 0, due_at = now(), error = null, set_aside_at = null
    returning work.stage
  ),
  woken as (
    select count(*) as size, pg_notify('roomlore_work', asked.stage) from asked group by asked.stage
  )
  select coalesce(sum(woken.size), 0)::bigint from woken;
end;

-- Let the planner know what tables have become: right after an import it knows nothing, and the server's own
-- housekeeping takes a minute to come by. Tables that nobody has looked at yet are analyzed as soon as there is
-- something in them: how many rows were changed is counted only some time after they were. A table of which an index
-- is being built is left for another time: whoever asks here has others waiting.
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
      and speaks_for_nobody()
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
    -- Changes are the operator's; the application decides on whose behalf.
    if not held.relispartition and held.relname <> 'activity_log' then
      execute format($policy$
        create policy change on %s to roomlore_app
        using (org_id = (select current_org()) and (select viewer_is_operator()))
        with check (org_id = (select current_org()) and (select viewer_is_operator()))
      $policy$, held.name);
    end if;
  end loop;
end $$;

grant execute on all functions in schema roomlore to roomlore_app;
