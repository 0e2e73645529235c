-- name: users
-- Uses index: platform_accounts_of_participant
select
  participants.id, participants.kind, participants.name, account.platform,
  coalesce(account.ids, '{}') as account_ids
from participants
left join lateral (
  select
    (array_agg(held.platform order by held.bridged, held.platform, held.account_id, held.persona))[1] as platform,
    array_agg(held.account_id order by held.bridged, held.platform, held.account_id, held.persona) as ids
  from platform_accounts as held
  where held.org_id = participants.org_id and held.participant_id = participants.id
) as account on true
where participants.org_id = %(org_id)s
  and participants.id = any (%(ids)s::uuid[])
  and participants.id <> participants.org_id;

-- name: memberships
-- Uses index: memberships_of_participant
select
  participant_id, room_id,
  nullif(min(joined_at), '-infinity') as joined_at,
  case when bool_and(left_at is not null) then nullif(max(left_at), 'infinity') end as left_at
from memberships
where org_id = %(org_id)s and participant_id = any (%(ids)s::uuid[])
group by participant_id, room_id
order by room_id;

-- name: talks
-- Uses indexes: messages_by_author, replies_from
select said.author_id as participant_id, parent.author_id as other_id, count(*) as count, max(said.sent_at) as last_at
from messages as said
cross join lateral (
  select edge.parent_id
  from thread_edges as edge
  where edge.org_id = said.org_id and edge.child_id = said.id
  order by edge.parent_id
  limit 1
) as answered
join messages as parent on parent.org_id = said.org_id and parent.id = answered.parent_id
where said.org_id = %(org_id)s
  and said.author_id = any (%(ids)s::uuid[])
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and parent.kind in ('message', 'whisper')
  and parent.redacted_at is null
  and parent.author_id <> said.author_id
group by said.author_id, parent.author_id
order by parent.author_id;

-- name: rooms
select id, visibility = 'open' as is_open, name, platform, external_id
from rooms
where org_id = %(org_id)s and id = any (%(ids)s::uuid[]);

-- name: conversations
select id, room_id from conversations where org_id = %(org_id)s and id = any (%(ids)s::uuid[]);

-- name: messages
-- Uses index: replies_from
select
  said.id, said.room_id, rooms.platform, said.external_id, said.sent_at, said.sequence, said.author_id, said.kind,
  standing.conversation_id, parent.id as reply_to,
  case
    when %(with_texts)s::boolean
      and said.kind <> 'whisper'
      and not exists (
        select from restricted_messages
        where restricted_messages.org_id = said.org_id and restricted_messages.message_id = said.id
      )
      then said.body
  end as body,
  case when said.kind = 'whisper' then coalesce(addressed.ids, '{}') end as audience
from messages as said
join rooms on rooms.org_id = said.org_id and rooms.id = said.room_id
left join conversation_messages as standing on standing.org_id = said.org_id and standing.message_id = said.id
left join lateral (
  select edge.parent_id
  from thread_edges as edge
  where edge.org_id = said.org_id and edge.child_id = said.id
  order by edge.parent_id
  limit 1
) as answered on true
left join messages as parent
  on parent.org_id = said.org_id
  and parent.id = answered.parent_id
  and said.kind <> 'system'
  and parent.kind in ('message', 'whisper')
  and parent.redacted_at is null
left join lateral (
  select array_agg(audience.participant_id order by audience.participant_id) as ids
  from message_audience as audience
  where audience.org_id = said.org_id and audience.message_id = said.id
) as addressed on true
where said.org_id = %(org_id)s
  and said.id = any (%(ids)s::uuid[])
  and said.kind in ('message', 'whisper', 'system')
  and said.redacted_at is null;

-- name: memories
select
  held.id, held.kind, held.status = 'active' as is_active, held.valid_from, held.superseded_by,
  held.audience = 'org' and resting.room_ids is null as is_for_org,
  case
    when resting.room_ids is null then held.asserted_in
    when cardinality(resting.room_ids) = 1 then resting.room_ids[1]
  end as room_id,
  coalesce(named.roles, '{}') as roles,
  coalesce(named.ids, '{}') as participant_ids,
  array(
    select tagged.tag
    from memory_tags as tagged
    where tagged.org_id = held.org_id and tagged.memory_id = held.id
    order by tagged.tag
  ) as tags,
  coalesce(resting.ids, '{}') as source_ids,
  case when shown.has_text then coalesce(nullif(held.title, ''), held.content) end as name,
  case when shown.has_text then held.content end as content
from memories as held
left join lateral (
  select
    array_agg(link.role order by link.participant_id, link.role) as roles,
    array_agg(link.participant_id order by link.participant_id, link.role) as ids
  from memory_participants as link
  where link.org_id = held.org_id and link.memory_id = held.id
) as named on true
left join lateral (
  select
    array_agg(distinct said.room_id) as room_ids,
    array_agg(said.id order by said.id) filter (
      where said.kind in ('message', 'whisper', 'system') and said.redacted_at is null
    ) as ids
  from memory_sources as source
  join messages as said on said.org_id = source.org_id and said.id = source.message_id
  where source.org_id = held.org_id and source.memory_id = held.id
) as resting on true
cross join lateral (
  select
    %(with_texts)s::boolean
    and held.sensitivity = 'normal'
    and not exists (
      select from memory_sources as source
      join messages as said on said.org_id = source.org_id and said.id = source.message_id
      where source.org_id = held.org_id
        and source.memory_id = held.id
        and (
          said.kind = 'whisper'
          or exists (
            select from restricted_messages
            where restricted_messages.org_id = said.org_id and restricted_messages.message_id = said.id
          )
        )
    ) as has_text
) as shown
where held.org_id = %(org_id)s and held.id = any (%(ids)s::uuid[]);

-- name: ids_after
with start as (
  select coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000') as id
)
(
  select participants.id
  from participants
  where participants.org_id = %(org_id)s
    and participants.id > (select start.id from start)
    and participants.id <> participants.org_id
  order by participants.id
  limit %(limit)s
)
union all
(
  select rooms.id
  from rooms
  where rooms.org_id = %(org_id)s and rooms.id > (select start.id from start)
  order by rooms.id
  limit %(limit)s
)
union all
(
  select conversations.id
  from conversations
  where conversations.org_id = %(org_id)s and conversations.id > (select start.id from start)
  order by conversations.id
  limit %(limit)s
)
union all
(
  select messages.id
  from messages
  where messages.org_id = %(org_id)s
    and messages.id > (select start.id from start)
    and messages.kind in ('message', 'whisper', 'system')
    and messages.redacted_at is null
  order by messages.id
  limit %(limit)s
)
union all
(
  select memories.id
  from memories
  where memories.org_id = %(org_id)s and memories.id > (select start.id from start)
  order by memories.id
  limit %(limit)s
)
order by id
limit %(limit)s;
