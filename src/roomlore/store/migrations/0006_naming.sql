-- What conversations are called by a language model, and how much it was asked.

alter table conversations
  -- the label is a language model's
  add column is_titled boolean not null default false,
  -- the conversation as it was when a language model was asked what it is about, whatever the answer; null: not yet
  add column asked_state text;

create index conversations_unasked on conversations (org_id, last_at desc, id)
  where asked_state is null and not is_named and sensitivity = 'normal';

-- A conversation as it is now: another text, name or message makes another state.
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

-- Whether what a language model said of a conversation still counts: it is as it was, and nobody has taken the
-- label away.
create function still_asked(held conversations) returns boolean
  language sql stable
  return case
    when held.asked_state is null or (held.is_titled and held.label = '') then false
    else held.asked_state = conversation_state(held.org_id, held.id)
  end;

-- Where the label of a conversation is from; read like a column: conversations.label_by.
create function label_by(held conversations) returns text
  language sql immutable
  return case
    when held.is_named then 'person'
    when held.is_titled and held.label <> '' then 'language model'
    else 'words'
  end;

-- How much was asked for an org, and when to ask again.
create table naming (
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
  primary key (org_id)
);

alter table naming enable row level security;
alter table naming force row level security;
grant select, insert, update on naming to roomlore_app;
create policy owner on naming to roomlore_owner using (true) with check (true);
create policy change on naming to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
