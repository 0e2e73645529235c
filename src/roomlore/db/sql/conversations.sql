-- name: newest
select
  id, room_id, label, is_named, conversations.label_source as label_source, sensitivity, opened_at, last_at,
  closed_at,
  case when split_reason = 'person' or was_present_from_start(room_id) then split_reason end as split_reason,
  case when was_present_from_start(room_id) then idle_timeout end as idle_timeout
from conversations
where org_id = %(org_id)s
order by last_at desc, id
limit %(limit)s;

-- name: newest_of_room
-- Uses index: conversations_of_room
select
  id, room_id, label, is_named, conversations.label_source as label_source, sensitivity, opened_at, last_at,
  closed_at,
  case when split_reason = 'person' or was_present_from_start(room_id) then split_reason end as split_reason,
  case when was_present_from_start(room_id) then idle_timeout end as idle_timeout
from conversations
where org_id = %(org_id)s and room_id = %(room_id)s
order by last_at desc, id
limit %(limit)s;

-- name: find
select id
from conversations
where org_id = %(org_id)s
  and (
    id between %(low)s and %(high)s
    or id_from_end between %(end_low)s and %(end_high)s
  )
order by id
limit 10;

-- name: by_id
select
  id, room_id, label, is_named, conversations.label_source as label_source, sensitivity, opened_at, last_at,
  closed_at,
  case when split_reason = 'person' or was_present_from_start(room_id) then split_reason end as split_reason,
  case when was_present_from_start(room_id) then idle_timeout end as idle_timeout
from conversations
where org_id = %(org_id)s and id = any (%(conversation_ids)s);

-- name: speakers
select
  asked.id as conversation_id, said.author_id as id,
  (array_agg(said.author_name order by said.sent_at desc, said.sequence desc, said.id desc))[1] as name,
  (array_agg(said.author_kind order by said.sent_at desc, said.sequence desc, said.id desc))[1] as kind,
  count(*) as message_count
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral messages_in(asked.id) as held (message_id)
join messages as said on said.org_id = %(org_id)s and said.id = held.message_id
group by asked.id, said.author_id
-- The order is not that of a participant's first message, because the first message may be a whisper.
order by asked.id, count(*) desc, min(said.sent_at), min(said.sequence), said.author_id;

-- name: message_ids
select held.message_id
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral messages_in(asked.id) as held (message_id);

-- name: messages_before
select
  id, room_id, external_id, kind, author_id, author_name, author_kind, body, sent_at, precision,
  sequence, edited_at, redacted_at, erased_at, reply_to,
  mentions, reactions, metadata, reach
from (
  select
    timeline.id, timeline.room_id, timeline.external_id, timeline.kind, timeline.author_id, timeline.author_name,
    timeline.author_kind, timeline.body, timeline.sent_at, timeline.precision, timeline.sequence,
    timeline.edited_at, timeline.redacted_at, timeline.erased_at, timeline.reply_to,
    -- Mentions are read from the text, which is not loaded for messages beyond the page.
    case when sum(timeline.size) over in_order - timeline.size < %(most_bytes)s then timeline.mentioned end as mentions,
    timeline.reacted as reactions, timeline.told_metadata as metadata,
    timeline.size, sum(timeline.size) over in_order::bigint as reach
  from messages_in(%(conversation_id)s) as held (message_id)
  join timeline on timeline.org_id = %(org_id)s and timeline.id = held.message_id
  where (timeline.sent_at, timeline.sequence, timeline.id) < (%(before_1)s, %(before_2)s, %(before_3)s)
  window in_order as (order by timeline.sent_at desc, timeline.sequence desc, timeline.id desc rows unbounded preceding)
  order by timeline.sent_at desc, timeline.sequence desc, timeline.id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc, sequence desc, id desc;

-- name: assignments_of
select asked.id, held.conversation_id
from unnest(%(message_ids)s::uuid[]) as asked (id)
cross join lateral (select conversation_of(asked.id) as conversation_id offset 0) as held
where held.conversation_id is not null;

-- name: room_assignments
-- The visibility rule runs once for each conversation of that time, not once for each message.
-- Uses index: conversations_of_room
select held.message_id, around.id
from (
  select id
  from conversations
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and last_at >= %(since)s
    and opened_at <= %(until)s
  offset 0
) as around
cross join lateral messages_in(around.id) as held (message_id)
where held.message_id = any (%(message_ids)s);

-- name: replies
select child_id, parent_id, method, confidence, answer_probability
from answers
where org_id = %(org_id)s and child_id = any (%(message_ids)s);

-- name: message_states
select
  said.id, said.kind, said.erased_at is not null as is_erased, recipients(said) as recipients,
  conversation_messages.conversation_id
from messages as said
left join conversation_messages on conversation_messages.org_id = said.org_id and conversation_messages.message_id = said.id
where said.org_id = %(org_id)s and said.id = any (%(message_ids)s);

-- name: open_manually
insert into conversations (org_id, id, room_id, label, is_named, split_reason, opened_at, last_at, idle_timeout)
select
  %(org_id)s, %(conversation_id)s, %(room_id)s, %(label)s, %(label)s <> '', 'person', min(opened_at), max(last_at),
  max(idle_timeout)
from conversations
where org_id = %(org_id)s and id = any (%(out_of)s)
having count(*) > 0;

-- name: pin
update conversation_messages
set conversation_id = %(to)s, is_manual = true
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: pin_all
-- Uses index: conversation_messages_in
update conversation_messages
set conversation_id = %(to)s, is_manual = true
where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: rename
update conversations
set label = %(label)s, is_named = %(label)s <> ''
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: set_sensitivity
update conversations
set
  sensitivity = %(sensitivity)s,
  is_sensitivity_set = true,
  is_sensitivity_set_by_operator = %(by_operator)s::boolean,
  prior_authors = case
    when %(sensitivity)s = 'normal' then '{}'
    when sensitivity = 'sensitive' then prior_authors
    else speakers(org_id, id)
  end
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: sensitivity_rights
select
  speakers(org_id, id) && %(participant_ids)s::uuid[] as has_spoken,
  is_sensitivity_set and is_sensitivity_set_by_operator as is_operators
from conversations
where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: close
update conversations set closed_at = last_at where org_id = %(org_id)s and id = %(conversation_id)s;

-- name: inherit_sensitivity
update conversations
set
  sensitivity = 'sensitive',
  is_sensitivity_set = true,
  is_sensitivity_set_by_operator = conversations.is_sensitivity_set_by_operator or marked.by_operator,
  prior_authors = case
    when conversations.sensitivity = 'normal' then said.speakers
    else array(
      select unnest(conversations.prior_authors)
      union
      (select unnest(marked.prior_authors) intersect select unnest(said.speakers))
      order by 1
    )
  end
from (
  select
    bool_or(other.is_sensitivity_set_by_operator) as by_operator,
    array(
      select unnest(each.prior_authors)
      from conversations as each
      where each.org_id = %(org_id)s
        and each.id = any (%(others)s)
        and each.is_sensitivity_set
        and each.sensitivity = 'sensitive'
    ) as prior_authors
  from conversations as other
  where other.org_id = %(org_id)s
    and other.id = any (%(others)s)
    and other.is_sensitivity_set
    and other.sensitivity = 'sensitive'
  having count(*) > 0
) as marked
cross join lateral (select speakers(%(org_id)s, %(conversation_id)s) as speakers) as said
where conversations.org_id = %(org_id)s and conversations.id = %(conversation_id)s;

-- name: inherit_label
update conversations
set label = named.label, is_named = true
from (
  select other.label
  from conversations as other
  where other.org_id = %(org_id)s
    and other.id = any (%(others)s)
    and other.is_named
    and not exists (
      select 1
      from conversation_messages
      where conversation_messages.org_id = %(org_id)s and conversation_messages.conversation_id = other.id
    )
  order by other.id
  limit 1
) as named
where conversations.org_id = %(org_id)s and conversations.id = %(conversation_id)s and not conversations.is_named;

-- name: clear_labels
-- A name may reveal messages that are no longer in the conversation. In an open room everybody may see those, too.
update conversations
set label = '', is_named = false
from rooms
where conversations.org_id = %(org_id)s
  and conversations.id = any (%(conversation_ids)s)
  and conversations.is_named
  and rooms.org_id = conversations.org_id
  and rooms.id = conversations.room_id
  and (rooms.visibility <> 'open' or conversations.sensitivity <> 'normal');
