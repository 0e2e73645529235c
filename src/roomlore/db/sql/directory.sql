-- name: lock_directory
select pg_advisory_xact_lock(hashtextextended('directory ' || %(org_id)s::text, 0));

-- name: lock_rooms
select pg_advisory_xact_lock(hashtextextended('room ' || id::text, 0))
from (select unnest(%(room_ids)s::uuid[]) as id order by 1) as sorted;

-- name: rooms_by_external_id
select
  rooms.platform, rooms.external_id, rooms.id
from unnest(%(keys_1)s::text[], %(keys_2)s::text[]) as asked (platform, external_id)
join rooms
  on rooms.org_id = %(org_id)s and rooms.platform = asked.platform and rooms.external_id = asked.external_id;

-- name: add_rooms
insert into rooms (
  org_id, id, platform, external_id, name, kind, visibility, is_stated_closed, topic, workspace, context_id
)
select
  %(org_id)s, id, platform, external_id, name, kind, visibility, is_stated_closed, topic, workspace,
  nullif(context_id, '')
from unnest(
  %(id)s::uuid[], %(platform)s::text[], %(external_id)s::text[], %(name)s::text[], %(kind)s::text[],
  %(visibility)s::text[], %(is_stated_closed)s::boolean[], %(topic)s::text[], %(workspace)s::text[],
  %(context_id)s::text[]
) as added (id, platform, external_id, name, kind, visibility, is_stated_closed, topic, workspace, context_id)
on conflict (org_id, platform, external_id) do nothing;

-- name: accounts_by_key
select
  platform_accounts.platform, platform_accounts.account_id, platform_accounts.persona, platform_accounts.participant_id, participants.kind
from unnest(%(keys_1)s::text[], %(keys_2)s::text[], %(keys_3)s::text[])
  as asked (platform, account_id, persona)
join platform_accounts
  on platform_accounts.org_id = %(org_id)s
  and platform_accounts.platform = asked.platform
  and platform_accounts.account_id = asked.account_id
  and platform_accounts.persona = asked.persona
join participants on participants.org_id = %(org_id)s and participants.id = platform_accounts.participant_id;

-- name: add_participants
insert into participants (org_id, id, kind, name, named_at, first_name, first_named_at)
select %(org_id)s, id, kind, name, '-infinity', name, 'infinity'
from unnest(%(participant_id)s::uuid[], %(kind)s::text[], %(name)s::text[]) as added (id, kind, name);

-- name: add_accounts
insert into platform_accounts (org_id, platform, account_id, persona, participant_id, bridged)
select %(org_id)s, platform, account_id, persona, participant_id, bridged
from unnest(
  %(platform)s::text[], %(account_id)s::text[], %(persona)s::text[], %(participant_id)s::uuid[],
  %(bridged)s::boolean[]
) as added (platform, account_id, persona, participant_id, bridged);

-- name: room_for_posting
select
  rooms.platform, rooms.external_id, rooms.name, rooms.kind, rooms.visibility, rooms.topic,
  rooms.visibility = 'open' or exists (
    select 1
    from memberships
    where memberships.org_id = rooms.org_id
      and memberships.room_id = rooms.id
      and memberships.participant_id = any (%(participants)s::uuid[])
      and memberships.joined_at <= %(at)s
      and (memberships.left_at is null or memberships.left_at > %(at)s)
  ) as is_present
from rooms
where rooms.org_id = %(org_id)s and rooms.id = %(room_id)s;

-- name: update_names
-- If two names have the same time, the greater is the current name and the lesser is the first name. So the order of
-- arrival does not matter. Rows are locked in order, so that writers do not deadlock.
with noted as (
  select
    id, name, coalesce(named_at, '-infinity') as named_at, first_name,
    coalesce(first_named_at, '-infinity') as first_named_at
  from unnest(
    %(participant_id)s::uuid[], %(name)s::text[], %(named_at)s::timestamptz[], %(first_name)s::text[],
    %(first_named_at)s::timestamptz[]
  ) as noted (id, name, named_at, first_name, first_named_at)
),
outdated as (
  select participants.id
  from participants
  join noted on noted.id = participants.id
  where participants.org_id = %(org_id)s
    and (
      (participants.named_at, participants.name collate "C") < (noted.named_at, noted.name collate "C")
      or (noted.first_named_at, noted.first_name collate "C")
        < (participants.first_named_at, participants.first_name collate "C")
    )
  order by participants.id
  for no key update of participants
)
update participants
set
  (name, named_at) = (
    select told.name, told.named_at
    from (values (participants.name, participants.named_at), (noted.name, noted.named_at)) as told (name, named_at)
    order by told.named_at desc, told.name collate "C" desc
    limit 1
  ),
  (first_name, first_named_at) = (
    select told.name, told.named_at
    from (
      values (participants.first_name, participants.first_named_at), (noted.first_name, noted.first_named_at)
    ) as told (name, named_at)
    order by told.named_at, told.name collate "C"
    limit 1
  )
from noted
where participants.org_id = %(org_id)s
  and participants.id = noted.id
  and participants.id in (select id from outdated)
returning participants.id;

-- name: update_kinds
update participants
set kind = noted.kind
from unnest(%(participant_id)s::uuid[], %(kind)s::text[]) as noted (id, kind)
where participants.org_id = %(org_id)s
  and participants.id = noted.id
  and participants.kind <> noted.kind
  and participants.kind <> 'agent';

-- name: update_author_kinds
-- Uses index: messages_by_author
update messages
set author_kind = participants.kind
from participants
where participants.org_id = %(org_id)s
  and participants.id = any (%(participant_ids)s)
  and messages.org_id = %(org_id)s
  and messages.author_id = participants.id
  and messages.author_kind <> participants.kind;

-- name: update_rooms
update rooms
set
  name = noted.name, kind = noted.kind, topic = noted.topic, workspace = noted.workspace,
  is_stated_open = noted.is_stated_open, context_id = noted.context_id
from (
  select
    held.id,
    case when held.is_named or told.name = held.external_id then held.name else told.name end as name,
    case when held.kind in ('dm', 'group_dm') then held.kind else coalesce(told.kind, held.kind) end as kind,
    told.topic,
    coalesce(nullif(told.workspace, ''), held.workspace) as workspace,
    held.is_stated_open or told.is_stated_open as is_stated_open,
    coalesce(nullif(told.context_id, ''), held.context_id) as context_id
  from unnest(
    %(room_id)s::uuid[], %(name)s::text[], %(kind)s::text[], %(topic)s::text[], %(workspace)s::text[],
    %(context_id)s::text[], %(is_stated_open)s::boolean[]
  ) as told (id, name, kind, topic, workspace, context_id, is_stated_open)
  join rooms as held on held.org_id = %(org_id)s and held.id = told.id
) as noted
where rooms.org_id = %(org_id)s
  and rooms.id = noted.id
  and (rooms.name, rooms.kind, rooms.topic, rooms.workspace, rooms.is_stated_open, rooms.context_id)
    is distinct from (noted.name, noted.kind, noted.topic, noted.workspace, noted.is_stated_open, noted.context_id)
returning rooms.id;

-- name: close_rooms
update rooms
set
  visibility = 'members', is_stated_closed = true, is_stated_open = rooms.is_stated_open and not closed.is_newest,
  kind = coalesce(closed.kind, rooms.kind)
from (
  select told.id, told.is_news, told.is_newest, case when held.kind in ('dm', 'group_dm') then held.kind else told.direct end as kind
  from unnest(%(room_id)s::uuid[], %(direct)s::text[], %(is_news)s::boolean[], %(is_newest)s::boolean[])
    as told (id, direct, is_news, is_newest)
  join rooms as held on held.org_id = %(org_id)s and held.id = told.id
) as closed
where rooms.org_id = %(org_id)s
  and rooms.id = closed.id
  and (
    not rooms.is_stated_closed
    or closed.is_news
    or (closed.is_newest and rooms.is_stated_open)
    or (closed.kind is not null and (rooms.visibility = 'open' or rooms.kind <> closed.kind))
  )
returning rooms.id;

-- name: ends_in
select room_id, left_at
from memberships
where org_id = %(org_id)s and room_id = any (%(room_ids)s) and left_at < 'infinity';

-- name: add_stated_memberships
with stated as (
  select room_id, participant_id, coalesce(joined_at, '-infinity') as joined_at, left_at
  from unnest(
    %(room_id)s::uuid[], %(participant_id)s::uuid[], %(joined_at)s::timestamptz[], %(left_at)s::timestamptz[]
  ) as stated (room_id, participant_id, joined_at, left_at)
  -- an operator's decision about any account of the person is kept
  where not operator_decided(stated.room_id, stated.participant_id)
),
implied as (
  delete from memberships
  using stated
  where memberships.org_id = %(org_id)s
    and memberships.room_id = stated.room_id
    and memberships.participant_id = stated.participant_id
    and memberships.implied
    and not exists (
      select 1
      from stated as same
      where same.room_id = memberships.room_id
        and same.participant_id = memberships.participant_id
        and same.joined_at = memberships.joined_at
    )
  returning memberships.room_id, memberships.participant_id
),
told as (
  insert into memberships (org_id, room_id, participant_id, joined_at, left_at)
  select %(org_id)s, room_id, participant_id, joined_at, left_at
  from stated
  on conflict (org_id, room_id, participant_id, joined_at) do update
  set left_at = least(memberships.left_at, excluded.left_at), implied = false
  where memberships.implied
    or memberships.left_at is distinct from least(memberships.left_at, excluded.left_at)
  returning room_id, participant_id, left_at
)
select room_id, participant_id, null::timestamptz as left_at from implied
union
select room_id, participant_id, left_at from told;

-- name: member_list_times
select id, member_list_at
from rooms
where org_id = %(org_id)s and id = any (%(room_ids)s) and member_list_at is not null;

-- name: present_members
select distinct room_id, participant_id
from memberships
where org_id = %(org_id)s and room_id = any (%(room_ids)s) and not implied and left_at is null;

-- name: update_member_list_times
update rooms
set member_list_at = told.told_at
from unnest(%(room_id)s::uuid[], %(told_at)s::timestamptz[]) as told (room_id, told_at)
where rooms.org_id = %(org_id)s
  and rooms.id = told.room_id
  and (rooms.member_list_at is null or rooms.member_list_at < told.told_at);

-- name: end_memberships
update memberships
set left_at = greatest(memberships.joined_at, told.told_at)
from unnest(%(room_id)s::uuid[], %(told_at)s::timestamptz[]) as told (room_id, told_at)
where memberships.org_id = %(org_id)s
  and memberships.room_id = told.room_id
  and memberships.left_at is null
  and not memberships.implied
  and not memberships.by_operator
  and (memberships.room_id, memberships.participant_id) not in (
    select * from unnest(%(listed_1)s::uuid[], %(listed_2)s::uuid[])
  )
returning memberships.room_id, memberships.participant_id, nullif(memberships.left_at, 'infinity') as left_at;

-- name: add_implied_memberships
with spoke as (
  select * from unnest(%(room_id)s::uuid[], %(participant_id)s::uuid[], %(first_at)s::timestamptz[])
    as spoke (room_id, participant_id, first_at)
),
earlier as (
  update memberships
  set joined_at = spoke.first_at
  from spoke
  where memberships.org_id = %(org_id)s
    and memberships.room_id = spoke.room_id
    and memberships.participant_id = spoke.participant_id
    and memberships.implied
    and memberships.joined_at > spoke.first_at
  returning memberships.participant_id
),
added as (
  insert into memberships (org_id, room_id, participant_id, joined_at, implied)
  select %(org_id)s, spoke.room_id, spoke.participant_id, spoke.first_at, true
  from spoke
  where not exists (
      select 1
      from memberships
      where memberships.org_id = %(org_id)s
        and memberships.room_id = spoke.room_id
        and memberships.participant_id = spoke.participant_id
    )
    -- a removed person does not become a member again by another account
    and not operator_decided(spoke.room_id, spoke.participant_id)
  returning participant_id
)
select participant_id from earlier
union
select participant_id from added;

-- name: add_activity
insert into room_activity (org_id, room_id, participant_id, message_count, first_at, last_at)
select %(org_id)s, room_id, participant_id, message_count, first_at, last_at
from unnest(
  %(room_id)s::uuid[], %(participant_id)s::uuid[], %(message_count)s::bigint[],
  %(first_at)s::timestamptz[], %(last_at)s::timestamptz[]
) as added (room_id, participant_id, message_count, first_at, last_at)
on conflict (org_id, room_id, participant_id) do update
set
  message_count = room_activity.message_count + excluded.message_count,
  first_at = least(room_activity.first_at, excluded.first_at),
  last_at = greatest(room_activity.last_at, excluded.last_at);

-- name: room_names
select id, called_room(workspace, name) as name, platform from rooms where org_id = %(org_id)s and id = any (%(room_ids)s);

-- name: find_rooms
select platform, external_id, id, name, workspace, visibility
from rooms
where org_id = %(org_id)s
  and (
    external_id = %(word)s
    or lower(name) = lower(%(word)s)
    or (workspace <> '' and lower(workspace || '/' || name) = lower(%(word)s))
    or (length(%(word)s) >= 4 and starts_with(id::text, lower(%(word)s)))
  )
order by id;

-- name: find_participants
select distinct called.id, called.name, called.kind, participant_merges.person_id
from known_participants as called
left join platform_accounts on platform_accounts.org_id = called.org_id and platform_accounts.participant_id = called.id
left join participant_merges on participant_merges.org_id = called.org_id and participant_merges.participant_id = called.id
where called.org_id = %(org_id)s
  and (
    lower(called.name) = lower(%(word)s)
    or (platform_accounts.account_id = %(word)s and platform_accounts.persona = '')
    or (length(%(word)s) >= 4 and starts_with(called.id::text, lower(%(word)s)))
  )
order by called.id;

-- name: accounts
select called.id, called.kind, participant_merges.person_id, called.name
from known_participants as called
left join participant_merges on participant_merges.org_id = called.org_id and participant_merges.participant_id = called.id
where called.org_id = %(org_id)s
  and (
    %(participant_id)s::uuid is null
    or called.id = %(participant_id)s
    or participant_merges.person_id = (
      select mine.person_id from participant_merges as mine
      where mine.org_id = %(org_id)s and mine.participant_id = %(participant_id)s
    )
  )
order by called.id;

-- name: external_accounts
-- Uses index: platform_accounts_of_participant
select platform, account_id, persona, participant_id, bridged
from platform_accounts
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
order by platform, account_id, persona;

-- name: merge
insert into participant_merges (org_id, participant_id, person_id)
select %(org_id)s, id, %(person_id)s
from unnest(%(participant_ids)s::uuid[]) as merged (id)
on conflict (org_id, participant_id) do update
set person_id = excluded.person_id;

-- name: split
delete from participant_merges where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);
