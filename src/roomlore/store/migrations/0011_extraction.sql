-- What was drawn from conversations, by which extractor and when: once for each state of a conversation. What a
-- language model was shown for it, and what it said.

alter table conversations
  -- a person said that it was over with what had been said until then; what is said in it later opens it again
  add column closed_at timestamptz,
  -- the conversation as it was when rules, or a language model, last went through it; null: still to be done
  add column drawn_state text,
  add column read_state text,
  -- what broke when it was gone through; until it changes it is not tried again
  add column draw_error text check (draw_error <> '');

create index conversations_undrawn on conversations (org_id, last_at desc, id) where drawn_state is null;
create index conversations_unread on conversations (org_id, last_at desc, id)
  where read_state is null and sensitivity = 'normal';
create index conversations_set_aside on conversations (org_id, id) where draw_error is not null;

-- Whether a conversation is over: nobody has spoken in it for long, or somebody closed it since.
create function is_over(held conversations, at timestamptz) returns boolean
  language sql stable
  return held.last_at + held.quiet_after <= at or coalesce(held.closed_at >= held.last_at, false);

-- A conversation as extractors find it: another text, name, message or sensitivity makes another state.
create function drawing_state(held conversations) returns text
  language sql stable
  return held.sensitivity || ' ' || conversation_state(held.org_id, held.id);

-- How much a language model was asked, each purpose by itself: one that fails keeps none of another from being asked.
alter table naming
  add column purpose text not null default 'titles' check (purpose in ('titles', 'statements')),
  drop constraint naming_pkey,
  add primary key (org_id, purpose);
alter table naming rename to asking;

-- How often a language model was asked about conversations of a room.
create table asked_of_rooms (
  org_id uuid not null references orgs,
  room_id uuid not null,
  day date not null,
  calls integer not null check (calls >= 0),
  primary key (org_id, room_id, day),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

-- What a language model was shown of a conversation, and what it said. For operators: gone with any message in it.
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

do $$
declare
  name text;
begin
  foreach name in array array['asked_of_rooms', 'readings', 'reading_messages'] loop
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

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
