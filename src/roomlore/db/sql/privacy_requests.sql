-- name: in_rooms
-- Uses index: privacy_requests_of_room
select
  privacy_requests.id, privacy_requests.room_id, privacy_requests.message_id, privacy_requests.author_id, privacy_requests.kind, privacy_requests.status, privacy_requests.review_reason,
  privacy_requests.detected_by, privacy_requests.detected_at, privacy_requests.decided_at, privacy_requests.decided_by, privacy_requests.target_ids, privacy_requests.identifiers, privacy_requests.own_identifiers,
  privacy_requests.from_ids, privacy_requests.exempt_ids, privacy_requests.is_ongoing, privacy_requests.since, privacy_requests.allowed_topics, privacy_requests.denied_topics,
  privacy_requests.covered_author_ids, privacy_requests.spans, message.sent_at, message.sequence
from privacy_requests
join messages as message on message.org_id = privacy_requests.org_id and message.id = privacy_requests.message_id
where privacy_requests.org_id = %(org_id)s and privacy_requests.room_id = any (%(room_ids)s)
order by privacy_requests.room_id, message.sent_at, message.sequence, message.id;

-- name: messages_before
-- Uses index: messages_in_order
select earlier.message_id
from messages as source
cross join lateral (
  select message.id as message_id
  from messages as message
  where message.org_id = source.org_id
    and message.room_id = source.room_id
    and (message.sent_at, message.sequence, message.id) < (source.sent_at, source.sequence, source.id)
    and message.kind in ('message', 'whisper')
    and message.redacted_at is null
  order by message.sent_at desc, message.sequence desc, message.id desc
  limit %(most)s
) as earlier
where source.org_id = %(org_id)s and source.id = any (%(ids)s);

-- name: texts_before
-- Uses index: messages_in_order
select source.id as message_id, earlier.body, earlier.author_id = source.author_id as is_own
from messages as source
cross join lateral (
  select message.id, message.author_id, message.body, 0 as place
  from replies as reply
  join messages as message on message.org_id = reply.org_id and message.id = reply.parent_id
  where reply.org_id = source.org_id and reply.child_id = source.id and reply.method = 'explicit'
  union all
  (
    select message.id, message.author_id, message.body,
      row_number() over (order by message.sent_at desc, message.sequence desc, message.id desc) as place
    from messages as message
    where message.org_id = source.org_id
      and message.room_id = source.room_id
      and (message.sent_at, message.sequence, message.id) < (source.sent_at, source.sequence, source.id)
      and message.kind = 'message'
      and message.redacted_at is null
    order by message.sent_at desc, message.sequence desc, message.id desc
    limit %(most)s
  )
) as earlier
where source.org_id = %(org_id)s and source.id = any (%(ids)s)
order by source.id, earlier.place;

-- name: restriction_starts
-- Uses index: messages_in_order
select source.id as message_id, earlier.sent_at
from messages as source
cross join lateral (
  select message.sent_at
  from messages as message
  where message.org_id = source.org_id
    and message.room_id = source.room_id
    and (message.sent_at, message.sequence, message.id) < (source.sent_at, source.sequence, source.id)
    and message.kind in ('message', 'whisper')
    and message.redacted_at is null
  order by message.sent_at desc, message.sequence desc, message.id desc
  offset %(back)s - 1
  limit 1
) as earlier
where source.org_id = %(org_id)s and source.id = any (%(ids)s);

-- name: messages_since
-- Uses index: messages_in_order
select message.id as message_id
from messages as message
where message.org_id = %(org_id)s
  and message.room_id = %(room_id)s
  and message.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and message.kind in ('message', 'whisper')
  and message.redacted_at is null
  and (%(author_ids)s::uuid[] is null or message.author_id = any (%(author_ids)s::uuid[]))
  and (%(among)s::uuid[] is null or message.id = any (%(among)s::uuid[]));

-- name: messages_by_word
-- Uses index: messages_by_author
select distinct message.id as message_id
from unnest(%(words_1)s::uuid[], %(words_2)s::text[]) as sought (author_id, pattern)
join messages as message
  on message.org_id = %(org_id)s
  and message.author_id = sought.author_id
  and message.room_id = %(room_id)s
  and lower(message.body) like sought.pattern
where message.kind in ('message', 'whisper') and message.redacted_at is null;

-- name: word_holders
-- If more than `most` earlier messages contain a value, only the requester's messages are returned. The room is read
-- once for all values.
with sought as (
  select
    word.voice_id, word.pattern, word.most, source.author_id, source.sent_at, source.sequence, source.id,
    -- whole words, with only punctuation and spaces between them
    '(^|[^[:alnum:]])' || replace(replace(btrim(word.pattern, '%%'), '_', '.'), '%%', '[^[:alnum:]]+')
      || '($|[^[:alnum:]])' as regex
  from unnest(%(voice_id)s::uuid[], %(pattern)s::text[], %(most)s::integer[]) as word (voice_id, pattern, most)
  join messages as source on source.org_id = %(org_id)s and source.id = word.voice_id
),
candidate as materialized (
  select message.id, message.author_id, message.sent_at, message.sequence, lower(message.body) as text
  from messages as message
  where message.org_id = %(org_id)s
    and message.room_id = %(room_id)s
    and message.kind in ('message', 'whisper')
    and message.redacted_at is null
    and lower(message.body) like any (%(pattern)s::text[])
),
holder as materialized (
  select
    sought.voice_id, sought.pattern, sought.most, candidate.id as message_id, candidate.author_id = sought.author_id as is_own,
    (candidate.sent_at, candidate.sequence, candidate.id) < (sought.sent_at, sought.sequence, sought.id) as is_before
  from sought
  join candidate on candidate.text like sought.pattern and candidate.text ~ sought.regex
),
counted as (
  select
    sought.voice_id, sought.pattern,
    (
      select count(*)
      from holder
      where holder.voice_id = sought.voice_id and holder.pattern = sought.pattern and holder.is_before
    ) > sought.most as is_common
  from sought
)
select counted.voice_id, counted.pattern, counted.is_common, holder.message_id
from counted
left join holder
  on holder.voice_id = counted.voice_id
  and holder.pattern = counted.pattern
  and (holder.is_own or not counted.is_common);

-- name: reply_neighbours
-- Uses indexes: replies_from, replies_to
select parent_id as message_id
from replies
where org_id = %(org_id)s and child_id = any (%(ids)s) and method = 'explicit' and parent_id is not null
union
select child_id
from replies
where org_id = %(org_id)s and parent_id = any (%(ids)s) and method = 'explicit';

-- name: messages_by_id
select
  message.id, message.room_id, message.author_id, message.author_name, message.author_kind, message.body, message.sent_at,
  message.sequence,
  (
    select reply.parent_id
    from replies as reply
    where reply.org_id = message.org_id and reply.child_id = message.id and reply.method = 'explicit'
  ) as reply_to
from messages as message
where message.org_id = %(org_id)s
  and message.id = any (%(ids)s)
  and message.kind in ('message', 'whisper')
  and message.redacted_at is null
order by message.id;

-- name: room_participants
select present.room_id, participants.id, participants.kind, participants.name
from (
  select room_activity.room_id, room_activity.participant_id
  from room_activity
  where room_activity.org_id = %(org_id)s and room_activity.room_id = any (%(room_ids)s)
  union
  select memberships.room_id, memberships.participant_id
  from memberships
  where memberships.org_id = %(org_id)s and memberships.room_id = any (%(room_ids)s)
) as present
join participants on participants.org_id = %(org_id)s and participants.id = present.participant_id
-- not the tombstone author
where participants.id <> participants.org_id
order by present.room_id, participants.id;

-- name: put
-- A request that exists already is updated.
insert into privacy_requests (
  org_id, id, room_id, message_id, author_id, kind, status, decided_at, review_reason, detected_by, detected_at, target_ids, identifiers,
  own_identifiers, from_ids, exempt_ids, is_ongoing, since, allowed_topics, denied_topics, covered_author_ids, spans
)
values (
  %(org_id)s, %(request_id)s, %(room_id)s, %(message_id)s, %(author_id)s, %(kind)s, %(status)s,
  -- if a person has decided a request, it keeps its time: see the update
  case when %(status)s::text = 'dismissed' then %(detected_at)s::timestamptz end,
  %(review_reason)s, %(detected_by)s, %(detected_at)s, %(target_ids)s, %(identifiers)s, %(own_identifiers)s, %(from_ids)s, %(exempt_ids)s,
  %(is_ongoing)s, %(since)s, %(allowed_topics)s, %(denied_topics)s, %(covered_author_ids)s, %(spans)s
)
on conflict (org_id, message_id) do update
set
  detected_at = case when privacy_requests.detected_by = excluded.detected_by then privacy_requests.detected_at else excluded.detected_at end,
  detected_by = excluded.detected_by, spans = excluded.spans, kind = excluded.kind, status = excluded.status,
  review_reason = excluded.review_reason, target_ids = excluded.target_ids,
  identifiers = excluded.identifiers, own_identifiers = excluded.own_identifiers,
  from_ids = excluded.from_ids, exempt_ids = excluded.exempt_ids, is_ongoing = excluded.is_ongoing,
  since = excluded.since,
  allowed_topics = excluded.allowed_topics, denied_topics = excluded.denied_topics, covered_author_ids = excluded.covered_author_ids;

-- name: restrict
-- The author of a confidential message may always read it, because a request by somebody else hides nobody's words from
-- themselves.
insert into restricted_messages (org_id, message_id, request_id, from_ids, exempt_ids)
select
  %(org_id)s, covered.message_id, privacy_requests.id, privacy_requests.from_ids,
  case
    when privacy_requests.kind = 'confidential' then array_remove(privacy_requests.exempt_ids, message.author_id) || message.author_id
    else privacy_requests.exempt_ids
  end
from unnest(%(covered_1)s::uuid[], %(covered_2)s::uuid[]) as covered (source_id, message_id)
join privacy_requests on privacy_requests.org_id = %(org_id)s and privacy_requests.message_id = covered.source_id and privacy_requests.status = 'active'
join messages as message on message.org_id = %(org_id)s and message.id = covered.message_id
on conflict (org_id, message_id, request_id) do update
set from_ids = excluded.from_ids, exempt_ids = excluded.exempt_ids;

-- name: lift
delete from restricted_messages
using privacy_requests
where privacy_requests.org_id = %(org_id)s
  and privacy_requests.message_id = any (%(source_ids)s)
  and restricted_messages.org_id = privacy_requests.org_id
  and restricted_messages.request_id = privacy_requests.id
returning restricted_messages.message_id;

-- name: lift_request
delete from restricted_messages where org_id = %(org_id)s and request_id = %(request_id)s
returning restricted_messages.message_id;

-- name: lift_messages
-- What a tombstone of a request restricts is not lifted, because nobody could restrict it again.
delete from restricted_messages
using privacy_requests
where restricted_messages.org_id = %(org_id)s
  and restricted_messages.message_id = any (%(ids)s)
  and privacy_requests.org_id = restricted_messages.org_id
  and privacy_requests.id = restricted_messages.request_id
  and privacy_requests.message_id is not null
returning restricted_messages.message_id;

-- name: drop_restrictions
delete from restricted_messages where org_id = %(org_id)s and message_id = any (%(ids)s);

-- name: leave_tombstones
update privacy_requests
set message_id = null, author_id = null, spans = null, target_ids = '{}', identifiers = '{}', own_identifiers = '{}'
where org_id = %(org_id)s
  and message_id = any (%(ids)s)
  and kind = 'forget'
  and status = 'active'
  and exists (select 1 from restricted_messages where restricted_messages.org_id = privacy_requests.org_id and restricted_messages.request_id = privacy_requests.id);

-- name: drop_idle_tombstones
-- Uses index: privacy_requests_gone
delete from privacy_requests
where org_id = %(org_id)s
  and message_id is null
  and not exists (select 1 from restricted_messages where restricted_messages.org_id = privacy_requests.org_id and restricted_messages.request_id = privacy_requests.id);

-- name: drop_requests
delete from privacy_requests where org_id = %(org_id)s and message_id = any (%(source_ids)s);

-- name: is_any_restricted
select exists (select 1 from restricted_messages where org_id = %(org_id)s and message_id = any (%(ids)s));

-- name: lift_all
-- What a tombstone of a request restricts is not lifted, because nobody could restrict it again.
delete from restricted_messages
using privacy_requests
where restricted_messages.org_id = %(org_id)s
  and privacy_requests.org_id = restricted_messages.org_id
  and privacy_requests.id = restricted_messages.request_id
  and privacy_requests.message_id is not null
returning restricted_messages.message_id;

-- name: present_participants
-- A participant who only wrote in an open room is not a member of the room.
select message.id as message_id, membership.participant_id
from messages as message
join rooms on rooms.org_id = message.org_id and rooms.id = message.room_id
join memberships as membership
  on membership.org_id = message.org_id
  and membership.room_id = message.room_id
  and membership.joined_at <= message.sent_at
  and (membership.left_at is null or membership.left_at > message.sent_at)
  and (not membership.implied or rooms.visibility = 'members')
join participants on participants.org_id = membership.org_id and participants.id = membership.participant_id
where message.org_id = %(org_id)s
  and message.id = any (%(ids)s)
  -- an agent may repeat what it recalls to all readers of an open room
  and (participants.kind <> 'agent' or rooms.visibility = 'members')
union
select message_audience.message_id, message_audience.participant_id
from message_audience
where message_audience.org_id = %(org_id)s and message_audience.message_id = any (%(ids)s);

-- name: remove_from_requests
update privacy_requests
set
  from_ids = case
    when from_ids is not null then array(select one from unnest(from_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  exempt_ids = array(select one from unnest(exempt_ids) as one where one <> all (%(participant_ids)s::uuid[])),
  covered_author_ids = case
    when covered_author_ids is not null then array(select one from unnest(covered_author_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  decided_by = case when decided_by <> all (%(participant_ids)s::uuid[]) then decided_by end,
  -- a request that no longer names anybody waits for a participant with that name
  spans = case when detected_by <> 'rules' or from_ids is null or not from_ids <@ %(participant_ids)s::uuid[] then spans end
where org_id = %(org_id)s
  and (
    from_ids && %(participant_ids)s::uuid[]
    or exempt_ids && %(participant_ids)s::uuid[]
    or covered_author_ids && %(participant_ids)s::uuid[]
    or decided_by = any (%(participant_ids)s)
  );

-- name: remove_from_restrictions
update restricted_messages
set
  from_ids = case
    when from_ids is not null then array(select one from unnest(from_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  exempt_ids = array(select one from unnest(exempt_ids) as one where one <> all (%(participant_ids)s::uuid[]))
where org_id = %(org_id)s
  and (from_ids && %(participant_ids)s::uuid[] or exempt_ids && %(participant_ids)s::uuid[]);

-- name: newest
select
  id, room_id, room_name, message_id, author_id, author_name, kind, status, review_reason, detected_by, sent_at, body, decided_at,
  decided_by, from_ids, exempt_ids, is_ongoing, allowed_topics, denied_topics, spans, reach
from (
  select
    privacy_requests.id, privacy_requests.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, privacy_requests.message_id, privacy_requests.author_id,
    coalesce(message.author_name, '') as author_name, privacy_requests.kind, privacy_requests.status, privacy_requests.review_reason, privacy_requests.detected_by, message.sent_at,
    coalesce(message.body, '') as body, privacy_requests.decided_at, privacy_requests.decided_by, privacy_requests.from_ids, privacy_requests.exempt_ids,
    privacy_requests.is_ongoing, privacy_requests.allowed_topics, privacy_requests.denied_topics, privacy_requests.spans, coalesce(octet_length(message.body), 0) as size,
    sum(coalesce(octet_length(message.body), 0)) over (
      order by message.sent_at desc nulls last, privacy_requests.id desc rows unbounded preceding
    )::bigint as reach
  from privacy_requests
  left join rooms on rooms.org_id = privacy_requests.org_id and rooms.id = privacy_requests.room_id
  left join messages as message on message.org_id = privacy_requests.org_id and message.id = privacy_requests.message_id
  where privacy_requests.org_id = %(org_id)s
    and (%(room_id)s::uuid is null or privacy_requests.room_id = %(room_id)s)
    and (%(status)s::text is null or privacy_requests.status = %(status)s)
    and (
      privacy_requests.id between %(low)s and %(high)s
      or privacy_requests.id_from_end between %(end_low)s and %(end_high)s
    )
    -- if a request names only unknown people, it restricts nothing yet
    and (privacy_requests.from_ids is null or privacy_requests.from_ids <> '{}')
  order by message.sent_at desc nulls last, privacy_requests.id desc
  limit %(limit)s
) as page
where reach - size < %(most_bytes)s
order by sent_at desc nulls last, id desc;

-- name: covered_messages
-- For a proposed request, these are the messages that it would restrict at least.
select covered.request_id, message.id as message_id
from (
  select restricted_messages.request_id, restricted_messages.message_id
  from restricted_messages
  where restricted_messages.org_id = %(org_id)s and restricted_messages.request_id = any (%(request_ids)s)
  union
  select privacy_requests.id, unnest(privacy_requests.target_ids)
  from privacy_requests
  where privacy_requests.org_id = %(org_id)s and privacy_requests.id = any (%(request_ids)s) and privacy_requests.status = 'proposed'
) as covered
join messages as message on message.org_id = %(org_id)s and message.id = covered.message_id
order by message.sent_at, message.sequence, message.id;

-- name: restrictions_of
select
  restricted_messages.message_id, restricted_messages.request_id, privacy_requests.kind, privacy_requests.author_id, coalesce(source.author_name, '') as author_name,
  privacy_requests.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, restricted_messages.from_ids
from restricted_messages
join privacy_requests on privacy_requests.org_id = restricted_messages.org_id and privacy_requests.id = restricted_messages.request_id
left join messages as source on source.org_id = privacy_requests.org_id and source.id = privacy_requests.message_id
left join rooms on rooms.org_id = privacy_requests.org_id and rooms.id = privacy_requests.room_id
where restricted_messages.org_id = %(org_id)s and restricted_messages.message_id = any (%(ids)s)
  -- if a request names only unknown people, it restricts nothing yet
  and (restricted_messages.from_ids is null or restricted_messages.from_ids <> '{}')
order by restricted_messages.message_id, restricted_messages.request_id;

-- name: counts
select
  count(*) filter (where status = 'active')::integer as carried_out,
  count(*) filter (where status = 'proposed')::integer as proposed,
  count(*) filter (where status = 'dismissed')::integer as dismissed
from privacy_requests
-- if a request names only unknown people, it restricts nothing yet
where org_id = %(org_id)s and (from_ids is null or from_ids <> '{}');

-- name: decide
update privacy_requests
set status = %(status)s, decided_at = %(at)s, decided_by = %(by)s
where org_id = %(org_id)s and id = %(request_id)s and status <> %(status)s;

-- name: mode
select coalesce((select privacy_mode from orgs where org_id = %(org_id)s), 'on');

-- name: set_mode
update orgs set privacy_mode = %(mode)s where org_id = %(org_id)s;

-- name: rooms_with_requests
select distinct room_id from privacy_requests where org_id = %(org_id)s and message_id is not null order by room_id;

-- name: has_restrictions
select org_has_restrictions();

-- name: restricted_in_org
select distinct message_id from restricted_messages where org_id = %(org_id)s;
