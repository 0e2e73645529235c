-- name: persons_of_accounts
select participant_id, person_id
from participant_merges
where org_id = %(org_id)s and participant_id = any (%(ids)s);

-- name: source_origins
-- Messages are read by their keys, because visibility is expensive to check.
with message as (
  select messages.id, messages.kind, messages.room_id
  from messages
  where messages.org_id = %(org_id)s and messages.id = any (%(sources_2)s::uuid[])
)
select
  source.memory_id, message.room_id, called_room(rooms.workspace, rooms.name) as room_name,
  case
    when message.kind = 'whisper' then 'whisper'
    when message.kind = 'context_injection' then 'injected'
    when rooms.visibility = 'open' then 'open'
    else 'members'
  end as reach,
  count(*) as message_count
from unnest(%(sources_1)s::uuid[], %(sources_2)s::uuid[]) as source (memory_id, message_id)
join message on message.id = source.message_id
left join rooms on rooms.org_id = %(org_id)s and rooms.id = message.room_id
group by 1, 2, 3, 4
order by 1, 4, 3, 2;

-- name: readers_of_messages
-- Returns each person once. A message that everybody may read excludes nobody. Readers of a sensitive memory were members
-- at the time, or had spoken in the conversation when it became sensitive.
with message as (
  select
    messages.id, messages.kind, messages.author_id, messages.room_id, messages.sent_at,
    rooms.visibility is not distinct from 'open' as is_open
  from messages
  left join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
  where messages.org_id = %(org_id)s
    and messages.id = any (%(message_ids)s::uuid[])
    and (
      %(is_sensitive)s::boolean
      or messages.kind in ('whisper', 'context_injection')
      or rooms.visibility is distinct from 'open'
    )
),
readable (message_id, participant_id, how) as (
  select message.id, memberships.participant_id, 'was_member'
  from message
  join memberships
    on memberships.org_id = %(org_id)s
    and memberships.room_id = message.room_id
    and (memberships.joined_at is null or memberships.joined_at <= message.sent_at)
    and (memberships.left_at is null or message.sent_at < memberships.left_at)
  union all
  select message.id, message.author_id, 'addressed' from message
  union all
  select message.id, spoken.participant_id, 'spoke'
  from message
  join conversations on conversations.org_id = %(org_id)s and conversations.id = conversation_of(message.id)
  cross join lateral unnest(conversations.prior_authors) as spoken (participant_id)
  where conversations.sensitivity = 'sensitive'
  union all
  select message.id, message_audience.participant_id, 'addressed'
  from message
  join message_audience on message_audience.org_id = %(org_id)s and message_audience.message_id = message.id
  where message.kind in ('whisper', 'context_injection')
),
persons as (
  select
    coalesce(participant_merges.person_id, readable.participant_id) as person_id,
    readable.message_id,
    min(readable.participant_id::text)::uuid as id,
    bool_or(readable.how = 'was_member') as was_member,
    bool_or(readable.how = 'spoke') as spoke,
    bool_or(readable.how = 'addressed') as addressed
  from readable
  left join participant_merges on participant_merges.org_id = %(org_id)s and participant_merges.participant_id = readable.participant_id
  group by 1, 2
),
readers as (
  select min(persons.id::text)::uuid as id
  from persons
  join message on message.id = persons.message_id
  where (persons.addressed or ((persons.was_member or message.is_open) and message.kind in ('message', 'system')))
    and (persons.was_member or persons.spoke or not %(is_sensitive)s::boolean)
  group by persons.person_id
  having count(*) = (select count(*) from message)
)
select known_participants.id, known_participants.name
from readers
join known_participants on known_participants.org_id = %(org_id)s and known_participants.id = readers.id
order by readers.id
limit %(limit)s;

-- name: people_for_operator
-- Counts come from `room_activity`. The tombstone author is left out. If the page is beyond the end, the last page is
-- returned.
with people as materialized (
  select
    (array_agg(participants.id order by participants.id))[1] as id,
    array_agg(participants.id order by participants.id) as accounts,
    (array_agg(participants.name order by participants.named_at desc, participants.name collate "C" desc))[1] as name,
    case
      when bool_and(participants.kind = 'agent') then 'agent'
      else min(participants.kind) filter (where participants.kind <> 'agent')
    end as kind,
    coalesce(sum(counted.message_count), 0)::bigint as message_count,
    min(counted.first_seen_at) as first_seen_at,
    max(counted.last_seen_at) as last_seen_at
  from participants
  left join participant_merges on participant_merges.org_id = participants.org_id and participant_merges.participant_id = participants.id
  left join (
    select
      participant_id, sum(message_count) as message_count, min(first_at) as first_seen_at, max(last_at) as last_seen_at
    from room_activity
    where org_id = %(org_id)s
      and (%(participant_ids)s::uuid[] is null or participant_id = any (%(participant_ids)s::uuid[]))
      and (%(room_id)s::uuid is null or room_id = %(room_id)s)
    group by participant_id
  ) as counted on counted.participant_id = participants.id
  where participants.org_id = %(org_id)s
    and participants.id <> %(org_id)s
    and (%(participant_ids)s::uuid[] is null or participants.id = any (%(participant_ids)s::uuid[]))
  group by coalesce(participant_merges.person_id, participants.id)
  having %(room_id)s::uuid is null or sum(counted.message_count) > 0
),
matching as materialized (
  select people.*
  from people
  where (%(kind)s::text = '' or people.kind = %(kind)s::text)
    and (
      %(named)s::text = ''
      or position(lower(%(named)s::text) in lower(people.name)) > 0
      or exists (
        select 1
        from platform_accounts
        where platform_accounts.org_id = %(org_id)s
          and platform_accounts.participant_id = any (people.accounts)
          and (
            position(lower(%(named)s::text) in lower(platform_accounts.account_id)) > 0
            or position(lower(%(named)s::text) in lower(platform_accounts.persona)) > 0
          )
      )
    )
)
select
  id, accounts, name, kind, message_count, first_seen_at, last_seen_at, (select count(*) from matching) as found
from matching
order by message_count desc, name, id
offset (
  select least(%(skip)s::bigint, greatest(count(*) - 1, 0) / %(limit)s::bigint * %(limit)s::bigint) from matching
)
limit %(limit)s;

-- name: people_for_viewer
-- The same as for the operator, but people are named and counted by the messages that the viewer may read.
with counted as materialized (
  select
    author_id, count(*) as message_count, min(sent_at) as first_seen_at, max(sent_at) as last_seen_at,
    (array_agg(author_name order by sent_at desc, sequence desc, id desc))[1] as name
  from messages
  where org_id = %(org_id)s
    and (%(participant_ids)s::uuid[] is null or author_id = any (%(participant_ids)s::uuid[]))
    and (%(room_id)s::uuid is null or room_id = %(room_id)s)
  group by author_id
),
people as materialized (
  select
    (array_agg(participants.id order by participants.id))[1] as id,
    array_agg(participants.id order by participants.id) as accounts,
    coalesce(
      (
        array_agg(counted.name order by counted.last_seen_at desc, participants.id)
        filter (where counted.name is not null)
      )[1],
      (array_agg(participants.first_name order by participants.id))[1]
    ) as name,
    case
      when bool_and(participants.kind = 'agent') then 'agent'
      else min(participants.kind) filter (where participants.kind <> 'agent')
    end as kind,
    coalesce(sum(counted.message_count), 0)::bigint as message_count,
    min(counted.first_seen_at) as first_seen_at,
    max(counted.last_seen_at) as last_seen_at
  from participants
  left join participant_merges on participant_merges.org_id = participants.org_id and participant_merges.participant_id = participants.id
  left join counted on counted.author_id = participants.id
  where participants.org_id = %(org_id)s
    and participants.id <> %(org_id)s
    and (%(participant_ids)s::uuid[] is null or participants.id = any (%(participant_ids)s::uuid[]))
  group by coalesce(participant_merges.person_id, participants.id)
  having %(room_id)s::uuid is null or sum(counted.message_count) > 0
),
matching as materialized (
  select people.*
  from people
  where (%(kind)s::text = '' or people.kind = %(kind)s::text)
    and (
      %(named)s::text = ''
      or position(lower(%(named)s::text) in lower(people.name)) > 0
      or exists (
        select 1
        from platform_accounts
        where platform_accounts.org_id = %(org_id)s
          and platform_accounts.participant_id = any (people.accounts)
          and (
            position(lower(%(named)s::text) in lower(platform_accounts.account_id)) > 0
            or position(lower(%(named)s::text) in lower(platform_accounts.persona)) > 0
          )
      )
    )
)
select
  id, accounts, name, kind, message_count, first_seen_at, last_seen_at, (select count(*) from matching) as found
from matching
order by message_count desc, name, id
offset (
  select least(%(skip)s::bigint, greatest(count(*) - 1, 0) / %(limit)s::bigint * %(limit)s::bigint) from matching
)
limit %(limit)s;

-- name: accounts_of_person
select participants.id
from participants
where participants.org_id = %(org_id)s
  and participants.id <> %(org_id)s
  and participants.id = any (
    array(
      select %(participant_id)s::uuid
      union
      select other.participant_id
      from participant_merges as mine
      join participant_merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
      where mine.org_id = %(org_id)s and mine.participant_id = %(participant_id)s
    )
  )
order by participants.id;

-- name: accounts_of
-- Uses index: platform_accounts_of_participant
select
  platform_accounts.platform, platform_accounts.account_id, platform_accounts.persona, platform_accounts.bridged, platform_accounts.participant_id,
  known.name, known.kind, participant_merges.person_id is not null as is_merged
from known_participants as known
join platform_accounts on platform_accounts.org_id = known.org_id and platform_accounts.participant_id = known.id
left join participant_merges on participant_merges.org_id = known.org_id and participant_merges.participant_id = known.id
where known.org_id = %(org_id)s and known.id = any (%(ids)s)
order by platform_accounts.platform, platform_accounts.account_id, platform_accounts.persona;
