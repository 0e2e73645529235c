-- name: mark_dirty
insert into work_queue (org_id, queue, subject_id, since, until)
values (%(org_id)s, 'disentangle', %(room_id)s, %(since)s, %(until)s)
on conflict (org_id, queue, subject_id) do update
set
  version = work_queue.version + 1,
  -- a leased range keeps its due time: the worker with the lease reads the room again anyway
  due_at = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then now() else work_queue.due_at end,
  attempts = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then 0 else work_queue.attempts end,
  failures = 0, error = null, dead_lettered_at = null,
  since = least(work_queue.since, excluded.since), until = greatest(work_queue.until, excluded.until);

-- name: mark_added_dirty
insert into work_queue (org_id, queue, subject_id, since, until)
select %(org_id)s, 'disentangle', room_id, min(sent_at), max(sent_at)
from pg_temp.incoming
where kind in ('message', 'whisper')
group by room_id
order by room_id
on conflict (org_id, queue, subject_id) do update
set
  version = work_queue.version + 1,
  -- a leased range keeps its due time: the worker with the lease reads the room again anyway
  due_at = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then now() else work_queue.due_at end,
  attempts = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then 0 else work_queue.attempts end,
  failures = 0, error = null, dead_lettered_at = null,
  since = least(work_queue.since, excluded.since), until = greatest(work_queue.until, excluded.until);

-- name: mark_messages_dirty
-- A dry run marks nothing: all writers in those rooms would have to wait for it.
insert into work_queue (org_id, queue, subject_id, since, until)
select messages.org_id, 'disentangle', messages.room_id, min(messages.sent_at), max(messages.sent_at)
from messages
where messages.org_id = %(org_id)s
  and messages.id in (
    select unnest(%(message_ids)s::uuid[])
    union all
    select replies.child_id
    from replies
    where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
  )
  and current_setting('roomlore.dry_run', true) is distinct from 'on'
group by messages.org_id, messages.room_id
order by messages.room_id
on conflict (org_id, queue, subject_id) do update
set
  version = work_queue.version + 1,
  -- a leased range keeps its due time: the worker with the lease reads the room again anyway
  due_at = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then now() else work_queue.due_at end,
  attempts = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then 0 else work_queue.attempts end,
  failures = 0, error = null, dead_lettered_at = null,
  since = least(work_queue.since, excluded.since), until = greatest(work_queue.until, excluded.until);

-- name: mark_ended_dirty
-- A dry run marks nothing, as above.
insert into work_queue (org_id, queue, subject_id, since, until)
select rooms.org_id, 'disentangle', rooms.id, min(ended.left_at), greatest(min(ended.left_at), max(latest.sent_at))
from unnest(%(ends_1)s::uuid[], %(ends_2)s::timestamptz[]) as ended (room_id, left_at)
join rooms on rooms.org_id = %(org_id)s and rooms.id = ended.room_id and rooms.visibility = 'members'
left join lateral (
  select messages.sent_at
  from messages
  where messages.org_id = rooms.org_id and messages.room_id = rooms.id
  order by messages.sent_at desc
  limit 1
) as latest on true
where current_setting('roomlore.dry_run', true) is distinct from 'on'
group by rooms.org_id, rooms.id
order by rooms.id
on conflict (org_id, queue, subject_id) do update
set
  version = work_queue.version + 1,
  -- a leased range keeps its due time: the worker with the lease reads the room again anyway
  due_at = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then now() else work_queue.due_at end,
  attempts = case when work_queue.leased_since is null or work_queue.dead_lettered_at is not null then 0 else work_queue.attempts end,
  failures = 0, error = null, dead_lettered_at = null,
  since = least(work_queue.since, excluded.since), until = greatest(work_queue.until, excluded.until);

-- name: unpin_after_ends
-- Uses indexes: conversations_of_room, conversation_messages_in
update conversation_messages
set is_manual = false
from unnest(%(ends_1)s::uuid[], %(ends_2)s::timestamptz[]) as ended (room_id, left_at)
join rooms on rooms.org_id = %(org_id)s and rooms.id = ended.room_id and rooms.visibility = 'members'
join conversations
  on conversations.org_id = rooms.org_id
  and conversations.room_id = rooms.id
  and conversations.opened_at < ended.left_at
  and conversations.last_at >= ended.left_at
cross join messages
where conversation_messages.org_id = %(org_id)s
  and conversation_messages.conversation_id = conversations.id
  and conversation_messages.is_manual
  and messages.org_id = %(org_id)s
  and messages.id = conversation_messages.message_id
  and messages.sent_at >= ended.left_at
  and messages.kind = 'message';

-- name: membership_ends
select distinct memberships.left_at
from memberships
join rooms on rooms.org_id = memberships.org_id and rooms.id = memberships.room_id
where memberships.org_id = %(org_id)s
  and memberships.room_id = %(room_id)s
  and memberships.left_at < 'infinity'
  and rooms.visibility = 'members'
order by memberships.left_at;

-- name: cross_ends
select exists (
  select 1
  from conversations
  join rooms on rooms.org_id = conversations.org_id and rooms.id = conversations.room_id and rooms.visibility = 'members'
  join memberships
    on memberships.org_id = rooms.org_id
    and memberships.room_id = rooms.id
    and memberships.left_at > conversations.opened_at
    and memberships.left_at <= conversations.last_at
  where conversations.org_id = %(org_id)s
    and conversations.id = any (%(conversation_ids)s)
    and not exists (
      select 1
      from conversation_messages
      join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
      where conversation_messages.org_id = conversations.org_id
        and conversation_messages.conversation_id = conversations.id
        and messages.kind = 'whisper'
    )
);

-- name: mark_unassigned_dirty
insert into work_queue (org_id, queue, subject_id, since, until)
select messages.org_id, 'disentangle', messages.room_id, min(messages.sent_at), max(messages.sent_at)
from messages
where messages.org_id = %(org_id)s
  and messages.kind in ('message', 'whisper')
  and messages.erased_at is null
  and not exists (
    select 1
    from conversation_messages
    where conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = messages.id
  )
group by messages.org_id, messages.room_id
order by messages.room_id
on conflict (org_id, queue, subject_id) do nothing;

-- name: lease_range
-- Each lease has its own id: the holder of the previous lease may have read the room before the change.
update work_queue
set
  leased_since = least(leased_since, since), leased_until = greatest(leased_until, until), since = null, until = null,
  lease_id = gen_random_uuid()
where org_id = %(org_id)s and queue = 'disentangle' and subject_id = %(room_id)s
returning leased_since as since, leased_until as until, lease_id;

-- name: lock_range
select since as changed_since, lease_id
from work_queue
where org_id = %(org_id)s and queue = 'disentangle' and subject_id = %(room_id)s
for update;

-- name: return_range
update work_queue
set
  leased_since = %(since)s, leased_until = %(until)s, due_at = now(), asked_at = now(), attempts = 0, failures = 0,
  error = null
where org_id = %(org_id)s and queue = 'disentangle' and subject_id = %(room_id)s;

-- name: finish_room
delete from work_queue where org_id = %(org_id)s and queue = 'disentangle' and subject_id = %(room_id)s;

-- name: ids_from
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and sent_at >= %(since)s
  and kind in ('message', 'whisper')
  and erased_at is null
order by sent_at
fetch first %(limit)s rows with ties;

-- name: ids_before
-- Uses index: messages_in_order
(
  select id
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and sent_at < %(since)s
    and kind = 'message'
    and erased_at is null
  order by sent_at desc, sequence desc, id desc
  limit %(limit)s
)
union all
(
  select id
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and sent_at < %(since)s
    and sent_at >= %(whispered_since)s
    and kind = 'whisper'
    and erased_at is null
);

-- name: ids_after
-- Uses index: messages_in_order
select id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and sent_at > %(after)s
  and kind = 'message'
  and erased_at is null
order by sent_at, sequence, id
limit %(limit)s;

-- name: room_messages
-- One index lookup for each message, whatever the planner estimates.
-- Uses indexes: replies_from, replies_found
select
  said.id, said.kind, said.author_id, said.author_name, said.body, said.sent_at, said.sequence,
  recipients(said) as recipients,
  stated.parent_id as stated_parent, stated.method as stated_method,
  found.parent_id as found_parent, found.method as found_method, found.confidence as found_confidence,
  found.answer_probability as found_answer_probability,
  conversation_messages.conversation_id, coalesce(conversation_messages.is_manual, false) as is_manual, conversation_messages.idle_timeout,
  conversation_messages.linked_offset,
  case
    when said.mentions is null then '{}'
    else array(
      select platform_accounts.participant_id
      from rooms
      join platform_accounts
        on platform_accounts.org_id = rooms.org_id
        and platform_accounts.platform = rooms.platform
        and platform_accounts.account_id in (select jsonb_array_elements_text(said.mentions))
      where rooms.org_id = said.org_id and rooms.id = said.room_id
      order by platform_accounts.participant_id
    )
  end as mentioned
from messages as said
left join lateral (
  select answers.parent_id, answers.method
  from answers
  where answers.org_id = said.org_id
    and answers.child_id = said.id
    and answers.method in ('explicit', 'thread')
  offset 0
) as stated on true
left join lateral (
  select replies.parent_id, replies.method, replies.confidence, replies.answer_probability
  from replies
  where replies.org_id = said.org_id
    and replies.child_id = said.id
    and replies.method in ('mention', 'inferred')
  offset 0
) as found on true
left join lateral (
  select held.conversation_id, held.is_manual, held.idle_timeout, held.linked_offset
  from conversation_messages as held
  where held.org_id = said.org_id and held.message_id = said.id
  offset 0
) as conversation_messages on true
where said.org_id = %(org_id)s and said.id = any (%(message_ids)s)
order by said.sent_at, said.sequence, said.id;

-- name: assignments_of
select conversation_messages.message_id, conversation_messages.conversation_id, messages.sent_at
from conversation_messages
join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
where conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = any (%(message_ids)s);

-- name: drop_inferred
delete from replies
where org_id = %(org_id)s and child_id = any (%(message_ids)s) and method in ('mention', 'inferred');

-- name: add_inferred
insert into replies (org_id, room_id, child_id, parent_id, method, confidence, answer_probability)
select
  %(org_id)s, child.room_id, found.child_id, found.parent_id, found.method, found.confidence, found.answer_probability
from unnest(
  %(child_id)s::uuid[], %(parent_id)s::uuid[], %(method)s::text[], %(confidence)s::real[],
  %(answer_probability)s::real[]
) as found (child_id, parent_id, method, confidence, answer_probability)
cross join lateral (
  select room_id
  from messages
  where org_id = %(org_id)s and id = found.child_id and erased_at is null
  limit 1
) as child
cross join lateral (
  select id
  from messages
  where org_id = %(org_id)s and id = found.parent_id and erased_at is null
  limit 1
) as parent
on conflict (org_id, child_id) where method in ('mention', 'inferred') do update
set parent_id = excluded.parent_id, method = excluded.method, confidence = excluded.confidence,
  answer_probability = excluded.answer_probability;

-- name: add_conversations
insert into conversations (org_id, id, room_id, split_reason, opened_at, last_at, idle_timeout)
select %(org_id)s, id, room_id, split_reason, opened_at, opened_at, idle_timeout
from unnest(
  %(id)s::uuid[], %(room_id)s::uuid[], %(split_reason)s::text[], %(opened_at)s::timestamptz[],
  %(idle_timeout)s::interval[]
) as opened (id, room_id, split_reason, opened_at, idle_timeout)
on conflict (org_id, id) do update
set split_reason = excluded.split_reason
where conversations.split_reason <> excluded.split_reason and conversations.split_reason <> 'person';

-- name: assign
insert into conversation_messages (org_id, message_id, conversation_id, idle_timeout, linked_offset)
select %(org_id)s, placed.message_id, placed.conversation_id, placed.idle_timeout, placed.linked_offset
from unnest(
  %(message_id)s::uuid[], %(conversation_id)s::uuid[], %(idle_timeout)s::interval[], %(linked_offset)s::smallint[]
) as placed (message_id, conversation_id, idle_timeout, linked_offset)
cross join lateral (
  select id
  from messages
  where org_id = %(org_id)s and id = placed.message_id and erased_at is null
  limit 1
) as said
on conflict (org_id, message_id) do update
set
  conversation_id = case when conversation_messages.is_manual then conversation_messages.conversation_id else excluded.conversation_id end,
  idle_timeout = excluded.idle_timeout,
  linked_offset = excluded.linked_offset;

-- name: assign_replies
-- Not across the end of a membership: a conversation ends there.
with recursive below as (
  select conversation_messages.message_id, conversation_messages.conversation_id
  from conversation_messages
  where conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = any (%(message_ids)s)
  union
  select child.message_id, below.conversation_id
  from below
  cross join lateral (
    select held.message_id
    from replies
    cross join lateral (
      select placed.message_id, placed.is_manual, placed.conversation_id
      from conversation_messages as placed
      where placed.org_id = replies.org_id and placed.message_id = replies.child_id
      limit 1
    ) as held
    where replies.org_id = %(org_id)s
      and replies.parent_id = below.message_id
      and (not held.is_manual or held.conversation_id = any (%(out_of)s))
      and replies.method = (
        select answers.method
        from answers
        where answers.org_id = %(org_id)s
          and answers.child_id = replies.child_id
          and answers.parent_id = replies.parent_id
      )
      and not exists (
        select 1
        from messages as parent
        join messages as reply on reply.org_id = parent.org_id and reply.id = replies.child_id and reply.kind = 'message'
        join rooms on rooms.org_id = parent.org_id and rooms.id = parent.room_id and rooms.visibility = 'members'
        join memberships
          on memberships.org_id = rooms.org_id
          and memberships.room_id = rooms.id
          and memberships.left_at > least(parent.sent_at, reply.sent_at)
          and memberships.left_at <= greatest(parent.sent_at, reply.sent_at)
        where parent.org_id = %(org_id)s and parent.id = replies.parent_id
      )
    offset 0
  ) as child
),
stale as (
  select conversation_messages.message_id, conversation_messages.conversation_id as was, below.conversation_id
  from below
  join conversation_messages on conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = below.message_id
  where conversation_messages.conversation_id <> below.conversation_id
),
moved as (
  update conversation_messages
  set conversation_id = stale.conversation_id, is_manual = conversation_messages.is_manual or cardinality(%(out_of)s::uuid[]) > 0
  from stale
  where conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = stale.message_id
)
select distinct touched.conversation_id
from stale
cross join lateral (values (stale.was), (stale.conversation_id)) as touched (conversation_id);

-- name: update_times
-- Uses index: conversation_messages_in
update conversations
set
  opened_at = span.opened_at, last_at = span.last_at, idle_timeout = coalesce(span.idle_timeout, conversations.idle_timeout)
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral (
  select
    min(said.sent_at) as opened_at,
    max(said.sent_at) as last_at,
    (array_agg(conversation_messages.idle_timeout order by said.sent_at desc, said.sequence desc, said.id desc))[1]
      as idle_timeout
  from conversation_messages
  cross join lateral (
    select messages.sent_at, messages.sequence, messages.id
    from messages
    where messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
    limit 1
  ) as said
  where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = asked.id
) as span
where conversations.org_id = %(org_id)s
  and conversations.id = asked.id
  and span.opened_at is not null
  and (conversations.opened_at, conversations.last_at, conversations.idle_timeout)
    is distinct from (span.opened_at, span.last_at, coalesce(span.idle_timeout, conversations.idle_timeout));

-- name: drop_empty
delete from conversations
where org_id = %(org_id)s
  and id = any (%(conversation_ids)s)
  and not exists (
    select 1
    from conversation_messages
    where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = conversations.id
  );

-- name: conversation_texts
-- A label uses no message that a request to forget or to restrict hides, and none that states a request.
-- Uses index: conversation_messages_in
select
  asked.id,
  array_agg(begun.body order by begun.sent_at, begun.sequence, begun.id) as bodies,
  array_agg(begun.body order by begun.sent_at, begun.sequence, begun.id) filter (
    where not exists (
      select 1
      from restricted_messages
      join privacy_requests on privacy_requests.org_id = restricted_messages.org_id and privacy_requests.id = restricted_messages.request_id
      where restricted_messages.org_id = %(org_id)s
        and restricted_messages.message_id = begun.id
        and (restricted_messages.from_ids is null or privacy_requests.message_id = begun.id)
    )
  ) as told,
  array_agg(distinct begun.author_name) as names
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral (
  select said.id, said.author_name, said.body, said.sent_at, said.sequence
  from conversation_messages
  cross join lateral (
    select messages.id, messages.author_name, messages.body, messages.sent_at, messages.sequence
    from messages
    where messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
    limit 1
  ) as said
  where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = asked.id
  order by said.sent_at, said.sequence, said.id
  limit %(limit)s
) as begun
group by asked.id;

-- name: with_whispers
-- Uses index: conversation_messages_in
select asked.id
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
where exists (
  select
  from conversation_messages
  join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
  where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = asked.id and messages.kind = 'whisper'
);

-- name: describe
with described as (
  update conversations
  set
    label = case
      when conversations.is_named or (conversations.is_titled and is_pending(conversations)) then conversations.label
      else told.label
    end,
    is_titled = conversations.is_titled and is_pending(conversations),
    title_state = case when is_pending(conversations) then conversations.title_state end,
    sensitivity = case
      when conversations.is_sensitivity_set or (told.goes_on and conversations.sensitivity = 'sensitive')
        then conversations.sensitivity
      else told.sensitivity
    end,
    prior_authors = case
      when conversations.is_sensitivity_set or conversations.sensitivity = 'sensitive'
        and (told.goes_on or told.sensitivity = 'sensitive')
        then conversations.prior_authors
      when told.sensitivity = 'sensitive' then speakers(conversations.org_id, conversations.id)
      else '{}'
    end
  from unnest(
    %(id)s::uuid[], %(label)s::text[], %(sensitivity)s::text[], %(goes_on)s::boolean[]
  ) as told (id, label, sensitivity, goes_on)
  join conversations as was on was.org_id = %(org_id)s and was.id = told.id
  where conversations.org_id = %(org_id)s and conversations.id = told.id
  returning
    conversations.id as conversation_id,
    (was.label, was.is_titled, was.sensitivity)
      is distinct from (conversations.label, conversations.is_titled, conversations.sensitivity) as is_other
)
select conversation_id from described where is_other;
