-- What people and memories are looked through by: who they are, where these are from, and who may read that.

-- name: persons -> AccountPerson
-- Of which persons these participants are accounts, as far as that may be known.
select participant_id as id, person_id
from merges
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: origins -> MemoryOrigin
-- From where what these memories rest on is, as far as the viewer may see: the rooms, and for whom it was said there.
-- `rests` arrive as parallel arrays. Messages are asked for by their keys: whether one may be read is dear.
with said as (
  select messages.id, messages.kind, messages.room_id
  from messages
  where messages.org_id = %(org_id)s and messages.id = any (%(message_id)s::uuid[])
)
select
  rests.memory_id, said.room_id, called_room(rooms.workspace, rooms.name) as room_name,
  case
    when said.kind = 'whisper' then 'whisper'
    when said.kind = 'context_injection' then 'injected'
    when rooms.visibility = 'open' then 'open'
    else 'members'
  end as reach,
  count(*) as message_count
from unnest(%(memory_id)s::uuid[], %(message_id)s::uuid[]) as rests (memory_id, message_id)
join said on said.id = rests.message_id
left join rooms on rooms.org_id = %(org_id)s and rooms.id = said.room_id
group by 1, 2, 3, 4
order by 1, 4, 3, 2;

-- name: readers -> MemoryReader
-- The first whom the viewer may know of those who may read everything that a memory rests on, each person once; where
-- it is sensitive, of those who were there when that was said: as members, or as who had spoken in the conversation when
-- it became sensitive. What everybody may read keeps nobody out.
with said as (
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
heard (message_id, participant_id, how) as (
  select said.id, memberships.participant_id, 'attended'
  from said
  join memberships
    on memberships.org_id = %(org_id)s
    and memberships.room_id = said.room_id
    and (memberships.joined_at is null or memberships.joined_at <= said.sent_at)
    and (memberships.left_at is null or said.sent_at < memberships.left_at)
  union all
  select said.id, said.author_id, 'addressed' from said
  union all
  select said.id, spoken.participant_id, 'spoke'
  from said
  join conversations on conversations.org_id = %(org_id)s and conversations.id = conversation_of(said.id)
  cross join lateral unnest(conversations.spoken_by) as spoken (participant_id)
  where conversations.sensitivity = 'sensitive'
  union all
  select said.id, message_audience.participant_id, 'addressed'
  from said
  join message_audience on message_audience.org_id = %(org_id)s and message_audience.message_id = said.id
  where said.kind in ('whisper', 'context_injection')
),
persons as (
  select
    coalesce(merges.person_id, heard.participant_id) as person_id,
    heard.message_id,
    min(heard.participant_id::text)::uuid as id,
    bool_or(heard.how = 'attended') as attended,
    bool_or(heard.how = 'spoke') as spoke,
    bool_or(heard.how = 'addressed') as addressed
  from heard
  left join merges on merges.org_id = %(org_id)s and merges.participant_id = heard.participant_id
  group by 1, 2
),
readers as (
  select min(persons.id::text)::uuid as id
  from persons
  join said on said.id = persons.message_id
  where (persons.addressed or ((persons.attended or said.is_open) and said.kind in ('message', 'system')))
    and (persons.attended or persons.spoke or not %(is_sensitive)s::boolean)
  group by persons.person_id
  having count(*) = (select count(*) from said)
)
select known_participants.id, known_participants.name
from readers
join known_participants on known_participants.org_id = %(org_id)s and known_participants.id = readers.id
order by readers.id
limit %(limit)s;

-- name: people_for_operator -> PersonRow
-- The persons of an org who are meant, most talkative first, with the maintained counts of all their accounts: those of
-- one page, the last where there are not so many. The author of erased places is nobody.
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
  left join merges on merges.org_id = participants.org_id and merges.participant_id = participants.id
  left join (
    select
      participant_id, sum(message_count) as message_count, min(first_at) as first_seen_at, max(last_at) as last_seen_at
    from activity
    where org_id = %(org_id)s
      and (%(participant_ids)s::uuid[] is null or participant_id = any (%(participant_ids)s::uuid[]))
    group by participant_id
  ) as counted on counted.participant_id = participants.id
  where participants.org_id = %(org_id)s
    and participants.id <> %(org_id)s
    and (%(participant_ids)s::uuid[] is null or participants.id = any (%(participant_ids)s::uuid[]))
  group by coalesce(merges.person_id, participants.id)
),
meant as materialized (
  select people.*
  from people
  where (%(kind)s::text = '' or people.kind = %(kind)s::text)
    and (
      %(named)s::text = ''
      or position(lower(%(named)s::text) in lower(people.name)) > 0
      or exists (
        select 1
        from identities
        where identities.org_id = %(org_id)s
          and identities.participant_id = any (people.accounts)
          and (
            position(lower(%(named)s::text) in lower(identities.account_id)) > 0
            or position(lower(%(named)s::text) in lower(identities.persona)) > 0
          )
      )
    )
)
select
  id, accounts, name, kind, message_count, first_seen_at, last_seen_at, (select count(*) from meant) as found
from meant
order by message_count desc, name, id
offset (
  select least(%(skip)s::bigint, greatest(count(*) - 1, 0) / %(limit)s::bigint * %(limit)s::bigint) from meant
)
limit %(limit)s;

-- name: people_for_viewer -> PersonRow
-- The same for a viewer: whom they may know of, named and counted by the messages that they may read. Accounts stand
-- together as far as the viewer may know that they are one person's.
with counted as materialized (
  select
    author_id, count(*) as message_count, min(sent_at) as first_seen_at, max(sent_at) as last_seen_at,
    (array_agg(author_name order by sent_at desc, native_order desc, id desc))[1] as name
  from messages
  where org_id = %(org_id)s and (%(participant_ids)s::uuid[] is null or author_id = any (%(participant_ids)s::uuid[]))
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
  left join merges on merges.org_id = participants.org_id and merges.participant_id = participants.id
  left join counted on counted.author_id = participants.id
  where participants.org_id = %(org_id)s
    and participants.id <> %(org_id)s
    and (%(participant_ids)s::uuid[] is null or participants.id = any (%(participant_ids)s::uuid[]))
  group by coalesce(merges.person_id, participants.id)
),
meant as materialized (
  select people.*
  from people
  where (%(kind)s::text = '' or people.kind = %(kind)s::text)
    and (
      %(named)s::text = ''
      or position(lower(%(named)s::text) in lower(people.name)) > 0
      or exists (
        select 1
        from identities
        where identities.org_id = %(org_id)s
          and identities.participant_id = any (people.accounts)
          and (
            position(lower(%(named)s::text) in lower(identities.account_id)) > 0
            or position(lower(%(named)s::text) in lower(identities.persona)) > 0
          )
      )
    )
)
select
  id, accounts, name, kind, message_count, first_seen_at, last_seen_at, (select count(*) from meant) as found
from meant
order by message_count desc, name, id
offset (
  select least(%(skip)s::bigint, greatest(count(*) - 1, 0) / %(limit)s::bigint * %(limit)s::bigint) from meant
)
limit %(limit)s;

-- name: same_person -> AccountRef
-- The accounts of the same person as this participant, itself included, as far as they are visible.
select participants.id
from participants
where participants.org_id = %(org_id)s
  and participants.id <> %(org_id)s
  and participants.id = any (
    array(
      select %(participant_id)s::uuid
      union
      select other.participant_id
      from merges as mine
      join merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
      where mine.org_id = %(org_id)s and mine.participant_id = %(participant_id)s
    )
  )
order by participants.id;

-- name: accounts_of -> Account
-- How platforms name these participants, and as whom the viewer knows them.
-- Uses index: identities_of_participant
select
  identities.platform, identities.account_id, identities.persona, identities.bridged, identities.participant_id,
  called.name, called.kind, merges.person_id is not null as is_merged
from known_participants as called
join identities on identities.org_id = called.org_id and identities.participant_id = called.id
left join merges on merges.org_id = called.org_id and merges.participant_id = called.id
where called.org_id = %(org_id)s and called.id = any (%(participant_ids)s)
order by identities.platform, identities.account_id, identities.persona;
