-- What a memory says of itself: how much it weighs and how sure it is, since when it is true, what drew it from which
-- words, and what makes two memories one.

alter table memories
  -- in a few words; empty where the content is short enough
  add column title text not null default '',
  add column importance real not null default 3 check (importance between 1 and 5),
  add column confidence real not null default 1 check (confidence between 0 and 1),
  -- since when it is true, as far as known: when the first of its sources was said
  add column valid_from timestamptz not null default now(),
  -- put aside by a person: neither recalled nor drawn again
  add column archived_at timestamptz,
  -- the work it belongs to, by whatever name that goes elsewhere
  add column task_id text check (task_id <> ''),
  -- of what it is the one value: a later memory of the same circle and slot takes its place
  add column slot text check (slot <> ''),
  -- where it was asserted
  add column asserted_in uuid,
  -- of whom and for whom: only memories of one circle say the same, or take each other's place unasked; one of its own
  -- where that is not told
  add column circle text not null default md5(gen_random_uuid()::text),
  -- of the content, whatever its case, spacing and small words; two of one digest say the same
  add column digest text not null default md5(gen_random_uuid()::text),
  add column status text not null generated always as (
    case when superseded_by is not null then 'deprecated' when archived_at is not null then 'archived' else 'active' end
  ) stored,
  add foreign key (org_id, asserted_in) references rooms (org_id, id);

update memories set valid_from = recorded_at;

-- The same is remembered once: whoever adds a memory holds a lock and looks. No constraint, because what is erased may
-- let two stand again that others had taken the place of.
create index memories_saying on memories (org_id, circle, digest) where status = 'active';
create index memories_slots on memories (org_id, circle, slot) where status = 'active' and slot is not null;
create index memories_of_task on memories (org_id, task_id) where task_id is not null;

-- The words of the message that it rests on; null: all of them.
alter table memory_sources
  add column quote_start integer check (quote_start >= 0),
  add column quote_end integer,
  -- what drew it from these words, 'rules' or the name of a language model; null where somebody said that it rests on them
  add column drawn_by text,
  add check ((quote_start is null) = (quote_end is null) and quote_start < quote_end);

create table memory_tags (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  tag text not null check (tag <> ''),
  primary key (org_id, memory_id, tag),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

create index memory_tags_of_tag on memory_tags (org_id, tag, memory_id);

-- A person said that a memory stands beside others of its slot that say something else.
create table partings (
  org_id uuid not null references orgs,
  memory_id uuid not null,
  -- of the content of what took its place before
  digest text not null,
  primary key (org_id, memory_id, digest),
  foreign key (org_id, memory_id) references memories (org_id, id)
);

do $$
declare
  name text;
begin
  foreach name in array array['memory_tags', 'partings'] loop
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

create policy read on memory_tags for select to roomlore_app using (
  org_id = (select current_org()) and ((select viewer_is_operator()) or can_recall(memory_id))
);

-- What was put aside is not found, and takes no place among what is.
do $$
begin
  execute replace(
    pg_get_functiondef('worded_memories(text, integer)'::regprocedure),
    'and can_recall(held.id)', 'and held.status <> ''archived'' and can_recall(held.id)'
  );
end $$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
