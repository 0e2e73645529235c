-- Naming conversations with a language model: which are to be named, what is said in them, what they are called.

-- name: short -> ConversationRef
-- Hold those of the newest quiet conversations in which too little is said to ask what they are about.
-- Uses index: conversations_unasked
select conversations.id
from (
  select id
  from conversations
  where org_id = %(org_id)s
    and asked_state is null
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
    from placements
    join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
    where placements.org_id = %(org_id)s and placements.conversation_id = newest.id and messages.body ~ '\S'
    limit %(fewest)s
  ) as telling
) < %(fewest)s
for update of conversations skip locked;

-- name: pass_by
-- Leave conversations as they are until they change. A statement of its own: what came before the rows were held
-- is seen.
update conversations
set asked_state = conversation_state(org_id, id)
where org_id = %(org_id)s and id = any (%(conversation_ids)s) and asked_state is null;

-- name: unnamed -> UntitledConversation
-- The newest conversation that has gone quiet since nobody said what it is about. Where its room is still to be
-- gone through it may belong elsewhere, or be sensitive.
-- Uses index: conversations_unasked
select id, conversation_state(org_id, id) as state
from conversations
where org_id = %(org_id)s
  and asked_state is null
  and not is_named
  and sensitivity = 'normal'
  and is_over(conversations, %(now)s)
  and not id = any (%(passed_over)s)
  and not exists (
    select 1
    from work
    where work.org_id = conversations.org_id and work.stage = 'untangle' and work.subject_id = conversations.room_id
  )
  and (
    select count(*)
    from (
      select 1
      from placements
      join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
      where placements.org_id = conversations.org_id
        and placements.conversation_id = conversations.id
        and messages.body ~ '\S'
      limit %(fewest)s
    ) as telling
  ) >= %(fewest)s
order by last_at desc, id
limit 1;

-- name: said -> TitleMessage
-- How a conversation begins.
-- Uses index: placements_in
select messages.id as message_id, messages.author_name, left(messages.body, %(longest)s) as body
from placements
join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
where placements.org_id = %(org_id)s
  and placements.conversation_id = %(conversation_id)s
  and messages.body ~ '\S'
  -- neither what a wish keeps from everybody or somebody, nor what voices one
  and not exists (
    select 1 from withheld where withheld.org_id = messages.org_id and withheld.message_id = messages.id
  )
order by messages.sent_at, messages.native_order, messages.id
limit %(limit)s;

-- name: hold -> ConversationRef
-- Keep a conversation from being described or named until the transaction ends.
select id from conversations where org_id = %(org_id)s and id = %(conversation_id)s for update;

-- name: names_in -> NameRow
-- What participants are called, as far as it occurs in a text.
select name
from participants
where org_id = %(org_id)s and length(name) > 2 and strpos(lower(%(text)s), lower(name)) > 0
union
select first_name
from participants
where org_id = %(org_id)s and length(first_name) > 2 and strpos(lower(%(text)s), lower(first_name)) > 0;

-- name: put_title
-- Say what a conversation is called, or that its label stays, if it is as it was when that was asked.
update conversations
set
  label = coalesce(%(title)s::text, label), is_titled = %(title)s::text is not null, asked_state = %(state)s
where org_id = %(org_id)s
  and id = %(conversation_id)s
  and asked_state is null
  and not is_named
  and sensitivity = 'normal'
  and conversation_state(org_id, id) = %(state)s;

-- name: waiting -> WaitingCount
-- How many conversations wait to be named.
-- Uses index: conversations_unasked
select
  (
    select count(*)
    from conversations
    where conversations.org_id = %(org_id)s
      and conversations.asked_state is null
      and not conversations.is_named
      and conversations.sensitivity = 'normal'
      and is_over(conversations, %(now)s)
      and (
        select count(*)
        from (
          select 1
          from placements
          join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
          where placements.org_id = conversations.org_id
            and placements.conversation_id = conversations.id
            and messages.body ~ '\S'
          limit %(fewest)s
        ) as telling
      ) >= %(fewest)s
  ) as waiting;
