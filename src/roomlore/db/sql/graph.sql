-- Graph questions about people, messages and memories. Only active memories are read.

-- name: agent_ids
select id from participants where org_id = %(org_id)s and kind = 'agent' order by id;

-- name: messages_by
-- Each participant is looked up alone, so only the newest rows are read.
-- Uses index: messages_by_author
select said.id
from unnest(%(participant_ids)s::uuid[]) as author (id)
cross join lateral (
  select messages.id, messages.sent_at, messages.sequence
  from messages
  where messages.org_id = %(org_id)s
    and messages.author_id = author.id
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
  order by messages.sent_at desc, messages.sequence desc, messages.id desc
  limit %(limit)s
) as said
order by said.sent_at desc, said.sequence desc, said.id desc
limit %(limit)s;

-- name: messages_among
select messages.id
from messages
where messages.org_id = %(org_id)s
  and messages.id = any (%(among)s::uuid[])
  and messages.author_id = any (%(participant_ids)s::uuid[])
  and messages.kind in ('message', 'whisper')
  and messages.redacted_at is null
order by messages.sent_at desc, messages.sequence desc, messages.id desc
limit %(limit)s;

-- name: memories_among
select memories.id
from memories
where memories.org_id = %(org_id)s
  and memories.status = 'active'
  and memories.id in (
    select ties.memory_id
    from links_of(%(among)s::uuid[]) as ties
    where ties.role in ('author', 'perspective') and ties.participant_id = any (%(participant_ids)s::uuid[])
  )
order by memories.valid_from desc, memories.id desc
limit %(limit)s;

-- name: conversation_partners
-- Only the first parent of each message is counted.
-- Uses index: messages_by_author, replies_from, replies_to
with said as materialized (
  select messages.id, messages.sent_at
  from messages
  where messages.org_id = %(org_id)s
    and messages.author_id = any (%(participant_ids)s::uuid[])
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
),
talk as (
  select answered.parent_id as other_id, said.sent_at
  from said
  cross join lateral (
    select edge.parent_id
    from thread_edges as edge
    where edge.org_id = %(org_id)s and edge.child_id = said.id
    order by edge.parent_id
    limit 1
  ) as answered
  union all
  select below.child_id, null
  from said
  cross join lateral (
    select edge.child_id
    from thread_edges as edge
    where edge.org_id = %(org_id)s
      and edge.parent_id = said.id
      and edge.parent_id = (
        select above.parent_id
        from thread_edges as above
        where above.org_id = %(org_id)s and above.child_id = edge.child_id
        order by above.parent_id
        limit 1
      )
    offset 0
  ) as below
)
select
  other.author_id as participant_id, count(*) as count, max(coalesce(talk.sent_at, other.sent_at)) as last
from talk
-- The lateral join looks the messages up one by one and never scans the table.
cross join lateral (
  select messages.author_id, messages.sent_at
  from messages
  where messages.org_id = %(org_id)s
    and messages.id = talk.other_id
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
  offset 0
) as other
where other.author_id <> all (%(participant_ids)s::uuid[])
group by other.author_id
order by count(*) desc, max(coalesce(talk.sent_at, other.sent_at)) desc, other.author_id
limit %(limit)s;

-- name: related_memories
-- Uses index: memory_participants_of_participant
with named as materialized (
  select
    held.memory_id,
    max(case held.role when 'subject' then 2 else 0 end)
      + max(case held.role when 'involved' then 1 else 0 end) as count
  from memory_participants as held
  where held.org_id = %(org_id)s
    and held.participant_id = any (%(participant_ids)s::uuid[])
    and held.role in ('subject', 'involved')
  group by held.memory_id
)
select memories.id as memory_id, memories.kind, named.count
from named
join memories on memories.org_id = %(org_id)s and memories.id = named.memory_id
where memories.status = 'active'
order by named.count desc, memories.id desc
limit %(limit)s;

-- name: related_tags
-- Uses index: memory_participants_of_participant
select ties.tag, count(distinct ties.memory_id) as count
from links_of(
  array(
    select memories.id
    from memories
    where memories.org_id = %(org_id)s
      and memories.status = 'active'
      and memories.id in (
        select held.memory_id
        from memory_participants as held
        where held.org_id = %(org_id)s
          and held.participant_id = any (%(participant_ids)s::uuid[])
          and held.role in ('subject', 'involved')
      )
  )
) as ties
where ties.tag is not null
group by ties.tag;

-- name: conversation_authors
select messages.author_id as participant_id, count(*) as count, max(messages.sent_at) as last
from messages_in(%(conversation_id)s) as held (message_id)
join messages on messages.org_id = %(org_id)s and messages.id = held.message_id
where messages.kind in ('message', 'whisper')
  and messages.redacted_at is null
group by messages.author_id
order by count(*) desc, max(messages.sent_at) desc, messages.author_id
limit %(limit)s;

-- name: conversation_memories
-- The weights are: 4 for a source in the conversation, 2 for a participant as subject, 1 for a participant who is
-- involved, and 1 for a tag shared with a memory of the conversation. Empty unless the viewer sees the whole
-- conversation.
with said as materialized (
  select held.message_id as id from messages_in(%(conversation_id)s) as held (message_id)
),
resting as materialized (
  select distinct memories.id
  from derived_from(array(select said.id from said)) as rests
  join memories on memories.org_id = %(org_id)s and memories.id = rests.memory_id
  where memories.status = 'active'
),
topic as materialized (
  select distinct ties.tag
  from links_of(array(select resting.id from resting)) as ties
  where ties.tag is not null
),
named as materialized (
  select
    held.memory_id as id,
    sum(case held.role when 'subject' then 2 else 1 end) as count
  from memory_participants as held
  where held.org_id = %(org_id)s
    and held.participant_id = any (%(participant_ids)s::uuid[])
    and held.role in ('subject', 'involved')
    and exists (select from said)
  group by held.memory_id
),
meant as materialized (
  select memories.id, memories.kind, coalesce(named.count, 0) as named, (resting.id is not null) as rests
  from named
  full join resting on resting.id = named.id
  join memories on memories.org_id = %(org_id)s and memories.id = coalesce(named.id, resting.id)
  where memories.status = 'active'
),
alike as (
  select distinct ties.memory_id as id
  from links_of(array(select meant.id from meant)) as ties
  join topic on topic.tag = ties.tag
)
select
  meant.id as memory_id, meant.kind,
  meant.named
    + case when meant.rests then 4 else 0 end
    + case when alike.id is null then 0 else 1 end as count
from meant
left join alike on alike.id = meant.id
order by 3 desc, meant.id desc
limit %(limit)s;

-- name: participant_names
select id, name, kind
from known_participants
where org_id = %(org_id)s and id = any (%(participant_ids)s::uuid[]);

-- name: with_other_accounts
select asked.id
from unnest(%(participant_ids)s::uuid[]) as asked (id)
union
select other.participant_id
from unnest(%(participant_ids)s::uuid[]) as asked (id)
join participant_merges as mine on mine.org_id = %(org_id)s and mine.participant_id = asked.id
join participant_merges as other on other.org_id = %(org_id)s and other.person_id = mine.person_id
order by id;
