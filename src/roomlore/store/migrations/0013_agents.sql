-- Whom agents met and what passed between them, what agents remember, and which of their answers are still to be
-- remembered.

-- What an agent makes of somebody is the sum of their encounters.
drop table relationships;

-- What passed between an agent and somebody else who took part in the same conversation. Written anew whenever the
-- conversation changes: nothing is counted twice, and what is gone does not count.
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

alter table encounters enable row level security;
alter table encounters force row level security;
grant select, insert, update, delete on encounters to roomlore_app;
create policy owner on encounters to roomlore_owner using (true) with check (true);
create policy change on encounters to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

-- The agent's own, as far as it may see the whole conversation from which it was counted.
create policy read on encounters for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or (agent_id = any ((select own_ids())::uuid[]) and can_know(participant_id) and can_follow(conversation_id))
  )
);

-- Whether a message that answers another agrees with it, or sets it right: by how it begins.
create function agrees(body text) returns boolean
  language sql immutable parallel safe
  return left(btrim(body), 40) ~* (
    '^(\+1\M|(yes|yep|yeah)?[ ,]*(agreed|i agree|exactly|that works|works for me|sounds good|good (catch|point|idea)'
    '|thanks|thank you|thx|you''?re right|that''?s (right|correct|it)|correct|confirmed|makes sense|perfect)\M)'
  );

-- Who takes back or mends what they said themselves sets nobody else right.
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

-- What an agent remembers is found by whose memory it is.
create index memory_participants_perspective on memory_participants (org_id, participant_id, memory_id)
  where role = 'perspective';

-- How much of its weight a memory of that age still has: all of it for thirty days, then half as much after every
-- further thirty, and never less than a quarter.
create function freshness(age interval) returns double precision
  language sql immutable parallel safe
  return greatest(
    0.25,
    power(0.5, greatest(extract(epoch from age)::float8 / (30 * 86400) - 1, 0))
  );

-- What is looked for among the memories of an agent; null in any field means all.
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

-- The memories that stand of what some accounts of one agent saw, as far as the viewer may see them: first what is
-- about the topic, the weightiest first, or else the newest. Each is asked about only until enough are found.
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
          where memory_tags.org_id = held.org_id and memory_tags.memory_id = held.id and memory_tags.tag = any ((scope).tags)
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

-- Which memories an agent has, in a number that changes with any that comes or goes: tells the agent and operators
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

-- An answer of an agent's that is to be remembered, if it is worth it, and what it answers.
alter table work drop constraint work_stage_check;
alter table work
  add constraint work_stage_check check (stage in ('embed', 'untangle', 'interact')),
  add column trigger_id uuid,
  add check ((stage = 'interact') = (trigger_id is not null));

create index work_by_trigger on work (org_id, trigger_id) where trigger_id is not null;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
