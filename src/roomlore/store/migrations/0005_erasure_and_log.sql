-- What was removed and stays removed, who may come in, and who read or changed what.

alter table rooms add check (keep_for > interval '0');

-- Whatever a removed account said or was called before its erasure is not taken in again. Only a digest of
-- the account is kept, for recognising it.
create table erased_accounts (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

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

-- What an erasure removed and kept. Ids only: it outlives what it tells about, so it references nothing.
create table receipts (
  org_id uuid not null references orgs,
  id uuid not null,
  at timestamptz not null,
  kind text not null check (kind in ('message', 'range', 'person', 'expiry')),
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
  primary key (org_id, id)
);

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
  primary key (org_id, id),
  unique (org_id, digest),
  foreign key (org_id, participant_id) references participants (org_id, id),
  check ((role = 'operator') = (participant_id is null)),
  -- the author of holes is nobody's account
  check (participant_id <> org_id)
);

create index api_keys_of_participant on api_keys (org_id, participant_id) where participant_id is not null;

-- Who read or changed what; never what was said, asked or answered. Ids only, so it references nothing.
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

do $$
declare
  name text;
begin
  foreach name in array array['erased_accounts', 'erased_ranges', 'receipts', 'api_keys', 'activity_log'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy owner on %I to roomlore_owner using (true) with check (true)', name);
  end loop;
  foreach name in array array['erased_accounts', 'erased_ranges', 'receipts', 'api_keys'] loop
    execute format($policy$
      create policy change on %I to roomlore_app
      using (org_id = (select current_org()) and (select viewer_is_operator()))
      with check (org_id = (select current_org()) and (select viewer_is_operator()))
    $policy$, name);
  end loop;
end $$;

grant select, insert, delete on erased_accounts, erased_ranges to roomlore_app;
grant select, insert on receipts to roomlore_app;
-- the check that re-reads comes after the erasure
grant update (checks, checked_at) on receipts to roomlore_app;
grant select, insert, delete on api_keys to roomlore_app;
grant update (revoked_at) on api_keys to roomlore_app;
-- append-only, and the server says when
grant select on activity_log to roomlore_app;
grant insert (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms) on activity_log to roomlore_app;

create policy read on receipts for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

create policy read on activity_log for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = any ((select own_ids())::uuid[]))
);

create policy append on activity_log for insert to roomlore_app with check (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or viewer_id = (select viewer_id()))
);

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

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
