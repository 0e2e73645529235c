-- Conversations, for people: listed and read as far as the viewer may see them, and changed by hand.

-- name: newest -> ConversationRow
-- The conversations of every room that the viewer may see, newest first.
select
  id, room_id, label, is_named, conversations.label_by as label_by, sensitivity, is_marked, opened_at, last_at,
  closed_at,
  case when boundary = 'person' or heard_from_the_first(room_id) then boundary end as boundary,
  case when heard_from_the_first(room_id) then quiet_after end as quiet_after
from conversations
where org_id = %(org_id)s
order by last_at desc, id
limit %(limit)s;

-- name: newest_of_room -> ConversationRow
-- The conversations of a room that the viewer may see, newest first.
-- Uses index: conversations_of_room
select
  id, room_id, label, is_named, conversations.label_by as label_by, sensitivity, is_marked, opened_at, last_at,
  closed_at,
  case when boundary = 'person' or heard_from_the_first(room_id) then boundary end as boundary,
  case when heard_from_the_first(room_id) then quiet_after end as quiet_after
from conversations
where org_id = %(org_id)s and room_id = %(room_id)s
order by last_at desc, id
limit %(limit)s;

-- name: named -> ConversationRef
-- Conversations whose ids begin or end so.
select id
from conversations
where org_id = %(org_id)s
  and (
    id between %(low)s and %(high)s
    or id_from_end between %(end_low)s and %(end_high)s
  )
order by id
limit 10;

-- name: by_id -> ConversationRow
-- These conversations, as far as the viewer may see them.
select
  id, room_id, label, is_named, conversations.label_by as label_by, sensitivity, is_marked, opened_at, last_at,
  closed_at,
  case when boundary = 'person' or heard_from_the_first(room_id) then boundary end as boundary,
  case when heard_from_the_first(room_id) then quiet_after end as quiet_after
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: talkers -> SpeakerCount
-- Who said how much in these conversations, most talkative first, under the name they last had there.
select
  asked.id as conversation_id, said.author_id as id,
  (array_agg(said.author_name order by said.sent_at desc, said.native_order desc, said.id desc))[1] as name,
  (array_agg(said.author_kind order by said.sent_at desc, said.native_order desc, said.id desc))[1] as kind,
  count(*) as message_count
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral said_in(asked.id) as held (message_id)
join messages as said on said.org_id = %(org_id)s and said.id = held.message_id
group by asked.id, said.author_id
-- Never by when somebody was first heard of: that may have been in a whisper.
order by asked.id, count(*) desc, min(said.sent_at), min(said.native_order), said.author_id;

-- name: members -> MessageRef
-- The messages of these conversations, as far as the viewer may see these.
select held.message_id as id
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral said_in(asked.id) as held (message_id);

-- name: said -> Message
-- The messages of a conversation just before a place, newest first, as many as one answer holds.
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  native_order, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
    timeline.author_kind, timeline.body, timeline.sent_at, timeline.precision, timeline.native_order,
    timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
    -- Whom it names stands in its words, which are not read of what is left out.
    case when sum(timeline.size) over in_order - timeline.size < %(most_bytes)s then timeline.mentioned end as mentions,
    timeline.reacted as reactions, timeline.told_metadata as metadata,
    timeline.size, sum(timeline.size) over in_order::bigint as reach
  from said_in(%(conversation_id)s) as held (message_id)
  join timeline on timeline.org_id = %(org_id)s and timeline.id = held.message_id
  where (timeline.sent_at, timeline.native_order, timeline.id) < (%(sent_at)s, %(native_order)s, %(message_id)s)
  window in_order as (order by timeline.sent_at desc, timeline.native_order desc, timeline.id desc rows unbounded preceding)
  order by timeline.sent_at desc, timeline.native_order desc, timeline.id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc, native_order desc, id desc;

-- name: conversations_of -> ConversationAssignment
-- Which conversations these messages are in, as far as the viewer may see these.
select asked.id as message_id, held.conversation_id
from unnest(%(message_ids)s::uuid[]) as asked (id)
cross join lateral (select conversation_of(asked.id) as conversation_id offset 0) as held
where held.conversation_id is not null;

-- name: standing_in_room -> ConversationAssignment
-- Which conversations these messages of one room are in, as far as the viewer may see these. The rule is asked
-- once for each conversation of their time, and not for each message.
-- Uses index: conversations_of_room
select held.message_id, around.id as conversation_id
from (
  select id
  from conversations
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and last_at >= %(since)s
    and opened_at <= %(until)s
  offset 0
) as around
cross join lateral said_in(around.id) as held (message_id)
where held.message_id = any (%(message_ids)s);

-- name: answered -> Reply
-- What these messages answer, as far as the viewer may see it: of each the one edge that counts.
select child_id, parent_id, method, confidence
from answers
where org_id = %(org_id)s and child_id = any (%(message_ids)s);

-- name: standing -> MessageState
-- Who hears these messages and where they stand: for the operator.
select
  said.id, said.kind, said.erased_at is not null as is_erased, hearers(said) as hearers,
  placements.conversation_id
from messages as said
left join placements on placements.org_id = said.org_id and placements.message_id = said.id
where said.org_id = %(org_id)s and said.id = any (%(message_ids)s);

-- name: roots -> MessageRef
-- The messages of a conversation that answer nothing in it.
-- Uses index: placements_in
select held.message_id as id
from placements as held
where held.org_id = %(org_id)s
  and held.conversation_id = %(conversation_id)s
  and not exists (
    select 1
    from answers
    join placements as above on above.org_id = answers.org_id and above.message_id = answers.parent_id
    where answers.org_id = %(org_id)s
      and answers.child_id = held.message_id
      and above.conversation_id = %(conversation_id)s
  );

-- name: open
-- Add a conversation that a person makes of some messages of others.
insert into conversations (org_id, id, room_id, label, is_named, boundary, opened_at, last_at, quiet_after)
select
  %(org_id)s, %(id)s, %(room_id)s, %(label)s, %(label)s <> '', 'person', min(opened_at), max(last_at),
  max(quiet_after)
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s)
having count(*) > 0;

-- name: pin
-- Put messages into a conversation by hand.
update placements
set conversation_id = %(conversation_id)s, by_hand = true
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: hand_over
-- Put all that is in one conversation into another.
-- Uses index: placements_in
update placements
set conversation_id = %(conversation_id)s
where org_id = %(org_id)s and conversation_id = %(other_id)s;

-- name: rename
-- Say what a conversation is called; no name leaves it to be found.
update conversations
set label = %(label)s, is_named = %(label)s <> ''
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: mark
-- Say how sensitive a conversation is. Those who had spoken in it when it became sensitive keep seeing it.
update conversations
set
  sensitivity = %(sensitivity)s,
  is_marked = true,
  marked_by_operator = %(by_operator)s::boolean,
  spoken_by = case
    when %(sensitivity)s = 'normal' then '{}'
    when sensitivity = 'sensitive' then spoken_by
    else speakers(org_id, id)
  end
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: marking -> SensitivityRights
-- Whether these accounts have spoken in a conversation, and whether an operator said how sensitive it is.
select
  speakers(org_id, id) && %(participant_ids)s::uuid[] as has_spoken,
  is_marked and marked_by_operator as is_operators
from conversations
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: close
-- Say that a conversation is over with what was said so far.
update conversations set closed_at = last_at where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: mark_like
-- Mark a conversation as sensitive where a person said so of one of others, out of which it got messages. Of those who
-- had spoken in the other, whoever has now spoken in this one keeps seeing it.
update conversations
set
  sensitivity = 'sensitive',
  is_marked = true,
  marked_by_operator = conversations.marked_by_operator or marked.by_operator,
  spoken_by = case
    when conversations.sensitivity = 'normal' then said.speakers
    else array(
      select unnest(conversations.spoken_by)
      union
      (select unnest(marked.spoken_by) intersect select unnest(said.speakers))
      order by 1
    )
  end
from (
  select
    bool_or(other.marked_by_operator) as by_operator,
    array(
      select unnest(each.spoken_by)
      from conversations as each
      where each.org_id = %(org_id)s
        and each.id = any (%(other_ids)s)
        and each.is_marked
        and each.sensitivity = 'sensitive'
    ) as spoken_by
  from conversations as other
  where other.org_id = %(org_id)s
    and other.id = any (%(other_ids)s)
    and other.is_marked
    and other.sensitivity = 'sensitive'
  having count(*) > 0
) as marked
cross join lateral (select speakers(%(org_id)s, %(conversation_id)s) as speakers) as said
where conversations.org_id = %(org_id)s and conversations.id = %(conversation_id)s;

-- name: take_name
-- Call a conversation as a person called one of others that has gone into it as a whole.
update conversations
set label = named.label, is_named = true
from (
  select other.label
  from conversations as other
  where other.org_id = %(org_id)s
    and other.id = any (%(other_ids)s)
    and other.is_named
    and not exists (
      select 1
      from placements
      where placements.org_id = %(org_id)s and placements.conversation_id = other.id
    )
  order by other.id
  limit 1
) as named
where conversations.org_id = %(org_id)s and conversations.id = %(conversation_id)s and not conversations.is_named;

-- name: unname
-- Take away the names of conversations that lost messages and are now perhaps seen by more: a name may tell of
-- what is no longer in there. In open rooms everybody may see what everybody may.
update conversations
set label = '', is_named = false
from rooms
where conversations.org_id = %(org_id)s
  and conversations.id = any (%(conversation_ids)s)
  and conversations.is_named
  and rooms.org_id = conversations.org_id
  and rooms.id = conversations.room_id
  and (rooms.visibility <> 'open' or conversations.sensitivity <> 'normal');
