-- name: lock_short
-- Uses index: conversations_unasked
select conversations.id
from (
  select id
  from conversations
  where org_id = %(org_id)s
    and title_state is null
    and not is_named
    and sensitivity = 'normal'
    and is_over(conversations, %(now)s)
  order by last_at desc, id
  limit %(limit)s
) as newest
join conversations on conversations.org_id = %(org_id)s and conversations.id = newest.id
where (
  select count(*)
  from (
    select 1
    from conversation_messages
    join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
    where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = newest.id and messages.body ~ '\S'
    limit %(min_messages)s
  ) as telling
) < %(min_messages)s
for update of conversations skip locked;

-- name: skip
-- This is a separate statement, so that it sees all changes from before the rows were locked.
update conversations
set title_state = conversation_state(org_id, id)
where org_id = %(org_id)s and id = any (%(conversation_ids)s) and title_state is null;

-- name: next_untitled
-- Until its room is disentangled, a conversation may lose messages or become sensitive.
-- Uses index: conversations_unasked
select id, conversation_state(org_id, id) as state
from conversations
where org_id = %(org_id)s
  and title_state is null
  and not is_named
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s)
  and not id = any (%(passed_over)s)
  and not exists (
    select 1
    from work_queue
    where work_queue.org_id = conversations.org_id and work_queue.queue = 'disentangle' and work_queue.subject_id = conversations.room_id
  )
  and (
    select count(*)
    from (
      select 1
      from conversation_messages
      join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
      where conversation_messages.org_id = conversations.org_id
        and conversation_messages.conversation_id = conversations.id
        and messages.body ~ '\S'
      limit %(min_messages)s
    ) as telling
  ) >= %(min_messages)s
order by last_at desc, id
limit 1;

-- name: first_messages
-- Uses index: conversation_messages_in
select messages.id as message_id, messages.author_name, left(messages.body, %(longest)s) as body
from conversation_messages
join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
where conversation_messages.org_id = %(org_id)s
  and conversation_messages.conversation_id = %(conversation_id)s
  and messages.body ~ '\S'
  -- no message that a privacy request hides from anybody, and no message that states a privacy request
  and not exists (
    select 1 from restricted_messages where restricted_messages.org_id = messages.org_id and restricted_messages.message_id = messages.id
  )
order by messages.sent_at, messages.sequence, messages.id
limit %(limit)s;

-- name: lock
select from conversations where org_id = %(org_id)s and id = %(conversation_id)s for update;

-- name: participant_names
select name
from participants
where org_id = %(org_id)s and length(name) > 2 and strpos(lower(%(text)s), lower(name)) > 0
union
select first_name
from participants
where org_id = %(org_id)s and length(first_name) > 2 and strpos(lower(%(text)s), lower(first_name)) > 0;

-- name: set_title
update conversations
set
  label = coalesce(%(title)s::text, label), is_titled = %(title)s::text is not null, title_state = %(state)s
where org_id = %(org_id)s
  and id = %(id)s
  and title_state is null
  and not is_named
  and sensitivity = 'normal'
  and conversation_state(org_id, id) = %(state)s;

-- name: count_untitled
-- Uses index: conversations_unasked
select count(*)
from conversations
where org_id = %(org_id)s
  and title_state is null
  and not is_named
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s)
  and (
    select count(*)
    from (
      select 1
      from conversation_messages
      join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
      where conversation_messages.org_id = conversations.org_id
        and conversation_messages.conversation_id = conversations.id
        and messages.body ~ '\S'
      limit %(min_messages)s
    ) as telling
  ) >= %(min_messages)s;
