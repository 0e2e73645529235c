-- name: add_receipt
insert into receipts (
  org_id, id, at, kind, room_id, message_id, participant_ids, since, until, key_id, viewer_id, removed, kept
)
values (
  %(org_id)s, %(id)s, %(at)s, %(kind)s, %(room_id)s, %(message_id)s, %(participant_ids)s::uuid[], %(since)s,
  %(until)s, %(key_id)s, %(viewer_id)s, %(removed_json)s::jsonb, %(kept_json)s::jsonb
);

-- name: set_checks
update receipts
set checks = %(checks)s::jsonb, checked_at = %(checked_at)s
where org_id = %(org_id)s and id = %(receipt_id)s;

-- name: newest_receipts
select
  id, at, kind, room_id, message_id, participant_ids, since, until, key_id, viewer_id, removed, kept, checks,
  checked_at
from receipts
where org_id = %(org_id)s
order by id desc
limit %(limit)s;

-- name: receipts_in_ranges
select
  id, at, kind, room_id, message_id, participant_ids, since, until, key_id, viewer_id, removed, kept, checks,
  checked_at
from receipts
where org_id = %(org_id)s
  and (
    id between %(low)s and %(high)s
    or id_from_end between %(end_low)s and %(end_high)s
  )
order by id
limit 10;

-- name: left_of_message
select 'messages' as what, count(*) as found
from messages
where org_id = %(org_id)s
  and id = %(message_id)s
  and (
    erased_at is null or author_id <> org_id or author_name <> '' or body <> '' or words <> ''
    or edited_at is not null
    or coalesce(mentions, attachments, reactions, metadata, raw) is not null
  )
union all
select 'revisions', count(*) from message_revisions where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'audiences', count(*) from message_audience where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'embeddings', count(*) from message_embeddings where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'work', count(*)
from work_queue
where org_id = %(org_id)s
  and (subject_id = %(message_id)s or trigger_id = %(message_id)s)
  -- projections are reported separately
  and queue not in ('qdrant', 'neo4j')
union all
select 'memories', count(*) from memory_sources where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'injections', count(*)
from injections where org_id = %(org_id)s and (message_id = %(message_id)s or trigger_id = %(message_id)s)
union all
select 'language model calls', count(*) from llm_call_messages where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'privacy requests', count(*) from privacy_requests where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'restricted messages', count(*) from restricted_messages where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'conversation messages', count(*) from conversation_messages where org_id = %(org_id)s and message_id = %(message_id)s
union all
select 'found replies', count(*)
from replies
where org_id = %(org_id)s
  and (child_id = %(message_id)s or parent_id = %(message_id)s)
  and method in ('mention', 'inferred')
union all
-- changes, except the one that reports the erasure
select 'events', count(*)
from outbox
where org_id = %(org_id)s
  and kind in ('message.added', 'message.revised', 'message.redacted')
  and subject_ids @> array[%(message_id)s::uuid];

-- name: left_of_range
with erased as (
  select id
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and sent_at < %(until)s
    -- not messages that arrived later; and when a retention period ends, tombstones may stay
    and received_at <= %(at)s
    and (%(kind)s = 'range' or erased_at is null)
)
select 'messages' as what, count(*) as found from erased
union all
select 'revisions', count(*)
from message_revisions where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'embeddings', count(*)
from message_embeddings as vectors
where vectors.org_id = %(org_id)s
  and vectors.room_id = %(room_id)s
  and (
    vectors.message_id in (select id from erased)
    or not exists (
      select 1 from messages where messages.org_id = %(org_id)s and messages.id = vectors.message_id
    )
  )
union all
select 'work', count(*)
from work_queue
where work_queue.org_id = %(org_id)s
  and work_queue.queue in ('embed', 'reembed')
  and (
    work_queue.subject_id in (select id from erased)
    or not exists (
      select 1 from messages where messages.org_id = %(org_id)s and messages.id = work_queue.subject_id
      union all
      select 1 from memories where memories.org_id = %(org_id)s and memories.id = work_queue.subject_id
    )
  )
union all
select 'replies', count(*)
from replies
where org_id = %(org_id)s and (child_id in (select id from erased) or parent_id in (select id from erased))
union all
select 'memories', count(*)
from memory_sources where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'language model calls', count(*)
from llm_call_messages where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'privacy requests', count(*) from privacy_requests where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'restricted messages', count(*) from restricted_messages where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'conversation messages', count(*)
from conversation_messages where org_id = %(org_id)s and message_id in (select id from erased)
union all
select 'conversations', count(*)
from conversations
where conversations.org_id = %(org_id)s
  and conversations.room_id = %(room_id)s
  and not exists (
    select 1
    from conversation_messages
    where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = conversations.id
  )
union all
select 'events', count(*)
from outbox
where org_id = %(org_id)s
  and kind in ('message.added', 'message.revised', 'message.redacted', 'message.erased')
  and room_id = %(room_id)s
  and exists (
    select
    from unnest(subject_ids) as named
    where not exists (select from messages where messages.org_id = %(org_id)s and messages.id = named)
  );

-- name: left_of_room
select 'rooms' as what, count(*) as found from rooms where org_id = %(org_id)s and id = %(room_id)s
union all
select 'messages', count(*) from messages where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'replies', count(*) from replies where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'embeddings', count(*) from message_embeddings where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'conversations', count(*) from conversations where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'memberships', count(*) from memberships where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'activity', count(*) from room_activity where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'memories', count(*) from memories where org_id = %(org_id)s and asserted_in = %(room_id)s
union all
select 'language model calls', count(*) from llm_calls where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'privacy requests', count(*) from privacy_requests where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'injections', count(*) from injections where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'events', count(*) from outbox where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'erased ranges', count(*) from erased_ranges where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'call counts', count(*) from llm_room_quota where org_id = %(org_id)s and room_id = %(room_id)s
union all
select 'work', count(*)
from work_queue where org_id = %(org_id)s and subject_id = %(room_id)s and queue not in ('qdrant', 'neo4j');

-- name: left_of_person
with gone as (select unnest(%(participant_ids)s::uuid[]) as id)
select 'participants' as what, count(*) as found
from participants where org_id = %(org_id)s and id in (select id from gone)
union all
select 'accounts', count(*)
from platform_accounts where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'messages', count(*) from messages where org_id = %(org_id)s and author_id in (select id from gone)
union all
select 'audiences', count(*)
from message_audience where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'privacy requests', count(*)
from privacy_requests
where org_id = %(org_id)s
  and (
    author_id in (select id from gone)
    or decided_by in (select id from gone)
    or from_ids && %(participant_ids)s::uuid[]
    or exempt_ids && %(participant_ids)s::uuid[]
    or covered_author_ids && %(participant_ids)s::uuid[]
  )
union all
select 'restricted messages', count(*)
from restricted_messages
where org_id = %(org_id)s
  and (from_ids && %(participant_ids)s::uuid[] or exempt_ids && %(participant_ids)s::uuid[])
union all
select 'memberships', count(*)
from memberships where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'activity', count(*)
from room_activity where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'merges', count(*) from participant_merges where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'keys', count(*) from api_keys where org_id = %(org_id)s and participant_id in (select id from gone)
union all
select 'interactions', count(*)
from interactions
where org_id = %(org_id)s
  and (agent_id in (select id from gone) or participant_id in (select id from gone))
union all
select 'stated trust', count(*)
from stated_trust
where org_id = %(org_id)s
  and (agent_id in (select id from gone) or participant_id in (select id from gone) or stated_by in (select id from gone))
union all
select 'injections', count(*) from injections where org_id = %(org_id)s and agent_id in (select id from gone)
union all
select 'memories', count(*)
from memories where org_id = %(org_id)s and asserted_by in (select id from gone)
union all
select 'memory links', count(*)
from memory_participants where org_id = %(org_id)s and participant_id in (select id from gone);

-- name: left_in_tombstones
with tombstones as (
  select id
  from messages
  where org_id = %(org_id)s and author_id = %(org_id)s
)
select 'words in tombstones' as what, count(*) as found
from messages
where org_id = %(org_id)s
  and author_id = %(org_id)s
  and (
    erased_at is null or author_name <> '' or body <> '' or words <> ''
    or coalesce(mentions, attachments, reactions, metadata, raw) is not null
  )
union all
select 'revisions', count(*) from message_revisions where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'embeddings', count(*)
from message_embeddings where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'work', count(*)
from work_queue
where org_id = %(org_id)s
  and (subject_id in (select id from tombstones) or trigger_id in (select id from tombstones))
  and queue not in ('qdrant', 'neo4j')
union all
select 'memory sources', count(*)
from memory_sources where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'language model calls', count(*)
from llm_call_messages where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'privacy requests', count(*) from privacy_requests where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'restricted messages', count(*) from restricted_messages where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'conversation messages', count(*)
from conversation_messages where org_id = %(org_id)s and message_id in (select id from tombstones)
union all
select 'found replies', count(*)
from replies
where org_id = %(org_id)s
  and (child_id in (select id from tombstones) or parent_id in (select id from tombstones))
  and method in ('mention', 'inferred');

-- name: mentioned_accounts
select distinct rooms.platform, named.account_id
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
cross join lateral (
  select jsonb_array_elements_text(messages.mentions)
  where jsonb_typeof(messages.mentions) = 'array'
  union all
  select jsonb_array_elements_text(reaction -> 'by')
  from jsonb_array_elements(
    case when jsonb_typeof(messages.reactions) = 'array' then messages.reactions else '[]' end
  ) as reaction
  where jsonb_typeof(reaction -> 'by') = 'array'
) as named (account_id)
where messages.org_id = %(org_id)s
  and messages.received_at <= %(at)s
  and (messages.mentions is not null or messages.reactions is not null);

-- name: erased_digests
select digest from erased_accounts where org_id = %(org_id)s and erased_at = %(at)s;

-- name: pending_removals
-- Work that is still queued. Clocks may differ by a minute. For a viewer's own receipt, only subjects with the viewer's
-- own ids count, because other subjects may be hidden from the viewer.
-- Uses index: work_asked
select
  projection.target as store, projection.failing_since, projection.error,
  count(work_left.id) filter (where work_left.is_gone) as to_remove,
  count(work_left.id) filter (where not work_left.is_gone) as to_rewrite,
  count(work_left.id) filter (where work_left.is_set_aside) as dead_lettered
from projections as projection
left join lateral (
  select
    work_queue.subject_id as id,
    work_queue.dead_lettered_at is not null as is_set_aside,
    not exists (
      select
      from messages
      where messages.org_id = work_queue.org_id
        and messages.id = work_queue.subject_id
        and messages.redacted_at is null
        and messages.erased_at is null
    )
    and not exists (
      select from memories where memories.org_id = work_queue.org_id and memories.id = work_queue.subject_id
    )
    and not exists (
      select from participants where participants.org_id = work_queue.org_id and participants.id = work_queue.subject_id
    )
    and not exists (
      select from conversations where conversations.org_id = work_queue.org_id and conversations.id = work_queue.subject_id
    )
    and not exists (select from rooms where rooms.org_id = work_queue.org_id and rooms.id = work_queue.subject_id) as is_gone
  from work_queue
  where work_queue.org_id = %(org_id)s
    and work_queue.queue = projection.target
    and work_queue.asked_at <= coalesce(%(checked_at)s::timestamptz, now()) + interval '1 minute'
    and (
      %(viewer_id)s::uuid is null
      or work_queue.subject_id = %(message_id)s::uuid
      or work_queue.subject_id = any (%(participant_ids)s::uuid[])
      or work_queue.subject_id in (
        select tombstones.id
        from messages as tombstones
        where tombstones.org_id = %(org_id)s and tombstones.author_id = %(org_id)s and tombstones.erased_at = %(at)s
      )
    )
) as work_left on true
where projection.org_id = %(org_id)s
group by projection.target, projection.failing_since, projection.error
order by projection.target;
