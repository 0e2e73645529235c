-- name: in_rooms
-- Uses index: wishes_of_room
select
  wishes.id, wishes.room_id, wishes.message_id, wishes.author_id, wishes.kind, wishes.status, wishes.doubt,
  wishes.heard_by, wishes.heard_at, wishes.decided_at, wishes.decided_by, wishes.target_ids, wishes.marks, wishes.own_marks,
  wishes.from_ids, wishes.spared_ids, wishes.is_standing, wishes.since, wishes.permits, wishes.denies,
  wishes.of_ids, wishes.told, message.sent_at, message.native_order
from wishes
join messages as message on message.org_id = wishes.org_id and message.id = wishes.message_id
where wishes.org_id = %(org_id)s and wishes.room_id = any (%(room_ids)s)
order by wishes.room_id, message.sent_at, message.native_order, message.id;

-- name: messages_before
-- Uses index: messages_in_order
select earlier.message_id
from messages as source
cross join lateral (
  select message.id as message_id
  from messages as message
  where message.org_id = source.org_id
    and message.room_id = source.room_id
    and (message.sent_at, message.native_order, message.id) < (source.sent_at, source.native_order, source.id)
    and message.kind in ('message', 'whisper')
    and message.redacted_at is null
  order by message.sent_at desc, message.native_order desc, message.id desc
  limit %(most)s
) as earlier
where source.org_id = %(org_id)s and source.id = any (%(ids)s);

-- name: restriction_starts
-- Uses index: messages_in_order
select source.id as message_id, earlier.sent_at
from messages as source
cross join lateral (
  select message.sent_at
  from messages as message
  where message.org_id = source.org_id
    and message.room_id = source.room_id
    and (message.sent_at, message.native_order, message.id) < (source.sent_at, source.native_order, source.id)
    and message.kind in ('message', 'whisper')
    and message.redacted_at is null
  order by message.sent_at desc, message.native_order desc, message.id desc
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
-- Of a value that more than `most` earlier messages have, only the requester's own messages count. The room is read once
-- for all values.
with sought as (
  select
    word.voice_id, word.pattern, word.most, source.author_id, source.sent_at, source.native_order, source.id,
    -- whole words, with nothing but signs between them
    '(^|[^[:alnum:]])' || replace(replace(btrim(word.pattern, '%%'), '_', '.'), '%%', '[^[:alnum:]]+')
      || '($|[^[:alnum:]])' as regex
  from unnest(%(voice_id)s::uuid[], %(pattern)s::text[], %(most)s::integer[]) as word (voice_id, pattern, most)
  join messages as source on source.org_id = %(org_id)s and source.id = word.voice_id
),
candidate as materialized (
  select message.id, message.author_id, message.sent_at, message.native_order, lower(message.body) as text
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
    (candidate.sent_at, candidate.native_order, candidate.id) < (sought.sent_at, sought.native_order, sought.id) as is_before
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
  message.native_order,
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
  select activity.room_id, activity.participant_id
  from activity
  where activity.org_id = %(org_id)s and activity.room_id = any (%(room_ids)s)
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
insert into wishes (
  org_id, id, room_id, message_id, author_id, kind, status, decided_at, doubt, heard_by, heard_at, target_ids, marks,
  own_marks, from_ids, spared_ids, is_standing, since, permits, denies, of_ids, told
)
values (
  %(org_id)s, %(request_id)s, %(room_id)s, %(message_id)s, %(author_id)s, %(kind)s, %(status)s,
  -- a request that a person decided about keeps its time: see the update
  case when %(status)s::text = 'dismissed' then %(heard_at)s::timestamptz end,
  %(doubt)s, %(heard_by)s, %(heard_at)s, %(target_ids)s, %(marks)s, %(own_marks)s, %(from_ids)s, %(spared_ids)s,
  %(is_standing)s, %(since)s, %(permits)s, %(denies)s, %(of_ids)s, %(told)s
)
on conflict (org_id, message_id) do update
set
  heard_at = case when wishes.heard_by = excluded.heard_by then wishes.heard_at else excluded.heard_at end,
  heard_by = excluded.heard_by, told = excluded.told, kind = excluded.kind, status = excluded.status,
  doubt = excluded.doubt, target_ids = excluded.target_ids,
  marks = excluded.marks, own_marks = excluded.own_marks,
  from_ids = excluded.from_ids, spared_ids = excluded.spared_ids, is_standing = excluded.is_standing,
  since = excluded.since,
  permits = excluded.permits, denies = excluded.denies, of_ids = excluded.of_ids;

-- name: restrict
-- The author of a confidential message may always read it: a request by somebody else hides nobody's words from themselves.
insert into withheld (org_id, message_id, wish_id, from_ids, spared_ids)
select
  %(org_id)s, covered.message_id, wishes.id, wishes.from_ids,
  case
    when wishes.kind = 'confide' then array_remove(wishes.spared_ids, message.author_id) || message.author_id
    else wishes.spared_ids
  end
from unnest(%(covered_1)s::uuid[], %(covered_2)s::uuid[]) as covered (source_id, message_id)
join wishes on wishes.org_id = %(org_id)s and wishes.message_id = covered.source_id and wishes.status = 'active'
join messages as message on message.org_id = %(org_id)s and message.id = covered.message_id
on conflict (org_id, message_id, wish_id) do update
set from_ids = excluded.from_ids, spared_ids = excluded.spared_ids;

-- name: lift
delete from withheld
using wishes
where wishes.org_id = %(org_id)s
  and wishes.message_id = any (%(source_ids)s)
  and withheld.org_id = wishes.org_id
  and withheld.wish_id = wishes.id;

-- name: lift_request
delete from withheld where org_id = %(org_id)s and wish_id = %(request_id)s;

-- name: lift_messages
-- Except for tombstones of requests: nobody could restrict the messages again.
delete from withheld
using wishes
where withheld.org_id = %(org_id)s
  and withheld.message_id = any (%(ids)s)
  and wishes.org_id = withheld.org_id
  and wishes.id = withheld.wish_id
  and wishes.message_id is not null;

-- name: drop_restrictions
delete from withheld where org_id = %(org_id)s and message_id = any (%(ids)s);

-- name: leave_tombstones
update wishes
set message_id = null, author_id = null, told = null, target_ids = '{}', marks = '{}', own_marks = '{}'
where org_id = %(org_id)s
  and message_id = any (%(ids)s)
  and kind = 'forget'
  and status = 'active'
  and exists (select 1 from withheld where withheld.org_id = wishes.org_id and withheld.wish_id = wishes.id);

-- name: drop_idle_tombstones
-- Uses index: wishes_gone
delete from wishes
where org_id = %(org_id)s
  and message_id is null
  and not exists (select 1 from withheld where withheld.org_id = wishes.org_id and withheld.wish_id = wishes.id);

-- name: drop_requests
delete from wishes where org_id = %(org_id)s and message_id = any (%(source_ids)s);

-- name: is_any_restricted
select exists (select 1 from withheld where org_id = %(org_id)s and message_id = any (%(ids)s));

-- name: lift_all
-- Except for tombstones of requests: nobody could restrict the messages again.
delete from withheld
using wishes
where withheld.org_id = %(org_id)s
  and wishes.org_id = withheld.org_id
  and wishes.id = withheld.wish_id
  and wishes.message_id is not null;

-- name: present_participants
-- Who only wrote in an open room is no member of it.
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
update wishes
set
  from_ids = case
    when from_ids is not null then array(select one from unnest(from_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  spared_ids = array(select one from unnest(spared_ids) as one where one <> all (%(participant_ids)s::uuid[])),
  of_ids = case
    when of_ids is not null then array(select one from unnest(of_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  decided_by = case when decided_by <> all (%(participant_ids)s::uuid[]) then decided_by end,
  -- a request that names nobody any more waits for somebody of that name
  told = case when heard_by <> 'rules' or from_ids is null or not from_ids <@ %(participant_ids)s::uuid[] then told end
where org_id = %(org_id)s
  and (
    from_ids && %(participant_ids)s::uuid[]
    or spared_ids && %(participant_ids)s::uuid[]
    or of_ids && %(participant_ids)s::uuid[]
    or decided_by = any (%(participant_ids)s)
  );

-- name: remove_from_restrictions
update withheld
set
  from_ids = case
    when from_ids is not null then array(select one from unnest(from_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  spared_ids = array(select one from unnest(spared_ids) as one where one <> all (%(participant_ids)s::uuid[]))
where org_id = %(org_id)s
  and (from_ids && %(participant_ids)s::uuid[] or spared_ids && %(participant_ids)s::uuid[]);

-- name: newest
select
  id, room_id, room_name, message_id, author_id, author_name, kind, status, doubt, heard_by, sent_at, body, decided_at,
  decided_by, from_ids, spared_ids, is_standing, permits, denies, told, reach
from (
  select
    wishes.id, wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, wishes.message_id, wishes.author_id,
    coalesce(message.author_name, '') as author_name, wishes.kind, wishes.status, wishes.doubt, wishes.heard_by, message.sent_at,
    coalesce(message.body, '') as body, wishes.decided_at, wishes.decided_by, wishes.from_ids, wishes.spared_ids,
    wishes.is_standing, wishes.permits, wishes.denies, wishes.told, coalesce(octet_length(message.body), 0) as size,
    sum(coalesce(octet_length(message.body), 0)) over (
      order by message.sent_at desc nulls last, wishes.id desc rows unbounded preceding
    )::bigint as reach
  from wishes
  left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
  left join messages as message on message.org_id = wishes.org_id and message.id = wishes.message_id
  where wishes.org_id = %(org_id)s
    and (%(room_id)s::uuid is null or wishes.room_id = %(room_id)s)
    and (%(status)s::text is null or wishes.status = %(status)s)
    and (
      wishes.id between %(low)s and %(high)s
      or wishes.id_from_end between %(end_low)s and %(end_high)s
    )
    -- a request that names nobody known restricts nothing yet
    and (wishes.from_ids is null or wishes.from_ids <> '{}')
  order by message.sent_at desc nulls last, wishes.id desc
  limit %(limit)s
) as page
where reach - size < %(most_bytes)s
order by sent_at desc nulls last, id desc;

-- name: covered_messages
-- Of a proposed request: what it would restrict at least.
select covered.wish_id, message.id as message_id
from (
  select withheld.wish_id, withheld.message_id
  from withheld
  where withheld.org_id = %(org_id)s and withheld.wish_id = any (%(request_ids)s)
  union
  select wishes.id, unnest(wishes.target_ids)
  from wishes
  where wishes.org_id = %(org_id)s and wishes.id = any (%(request_ids)s) and wishes.status = 'proposed'
) as covered
join messages as message on message.org_id = %(org_id)s and message.id = covered.message_id
order by message.sent_at, message.native_order, message.id;

-- name: restrictions_of
select
  withheld.message_id, withheld.wish_id, wishes.kind, wishes.author_id, coalesce(source.author_name, '') as author_name,
  wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, withheld.from_ids
from withheld
join wishes on wishes.org_id = withheld.org_id and wishes.id = withheld.wish_id
left join messages as source on source.org_id = wishes.org_id and source.id = wishes.message_id
left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
where withheld.org_id = %(org_id)s and withheld.message_id = any (%(ids)s)
  -- a request that names nobody known restricts nothing yet
  and (withheld.from_ids is null or withheld.from_ids <> '{}')
order by withheld.message_id, withheld.wish_id;

-- name: counts
select
  count(*) filter (where status = 'active')::integer as carried_out,
  count(*) filter (where status = 'proposed')::integer as proposed,
  count(*) filter (where status = 'dismissed')::integer as dismissed
from wishes
-- a request that names nobody known restricts nothing yet
where org_id = %(org_id)s and (from_ids is null or from_ids <> '{}');

-- name: decide
update wishes
set status = %(status)s, decided_at = %(at)s, decided_by = %(by)s
where org_id = %(org_id)s and id = %(request_id)s and status <> %(status)s;

-- name: mode
select coalesce((select wish_mode from orgs where org_id = %(org_id)s), 'on');

-- name: set_mode
update orgs set wish_mode = %(mode)s where org_id = %(org_id)s;

-- name: rooms_with_requests
select distinct room_id from wishes where org_id = %(org_id)s and message_id is not null order by room_id;

-- name: has_restrictions
select org_withholds();

-- name: restricted_in_org
select distinct message_id from withheld where org_id = %(org_id)s;
