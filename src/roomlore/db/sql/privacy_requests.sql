-- Spoken wishes: what was heard, and what is withheld for it.

-- name: in_rooms -> StoredRequest
-- The wishes voiced in these rooms, in the order of the rooms.
-- Uses index: wishes_of_room
select
  wishes.id, wishes.room_id, wishes.message_id, wishes.author_id, wishes.kind, wishes.status, wishes.doubt,
  wishes.heard_by, wishes.heard_at, wishes.decided_at, wishes.decided_by, wishes.target_ids, wishes.marks, wishes.own_marks,
  wishes.from_ids, wishes.spared_ids, wishes.is_standing, wishes.since, wishes.permits, wishes.denies,
  wishes.of_ids, wishes.told, said.sent_at, said.native_order
from wishes
join messages as said on said.org_id = wishes.org_id and said.id = wishes.message_id
where wishes.org_id = %(org_id)s and wishes.room_id = any (%(room_ids)s)
order by wishes.room_id, said.sent_at, said.native_order, said.id;

-- name: said_before -> MessageRef
-- What was said last before these messages, in the room of each.
-- Uses index: messages_in_order
select earlier.message_id
from messages as voice
cross join lateral (
  select said.id as message_id
  from messages as said
  where said.org_id = voice.org_id
    and said.room_id = voice.room_id
    and (said.sent_at, said.native_order, said.id) < (voice.sent_at, voice.native_order, voice.id)
    and said.kind in ('message', 'whisper')
    and said.redacted_at is null
  order by said.sent_at desc, said.native_order desc, said.id desc
  limit %(most)s
) as earlier
where voice.org_id = %(org_id)s and voice.id = any (%(message_ids)s);

-- name: starts -> RestrictionStart
-- When the message was sent that stands so far before each of these, in the room of each.
-- Uses index: messages_in_order
select voice.id as message_id, earlier.sent_at
from messages as voice
cross join lateral (
  select said.sent_at
  from messages as said
  where said.org_id = voice.org_id
    and said.room_id = voice.room_id
    and (said.sent_at, said.native_order, said.id) < (voice.sent_at, voice.native_order, voice.id)
    and said.kind in ('message', 'whisper')
    and said.redacted_at is null
  order by said.sent_at desc, said.native_order desc, said.id desc
  offset %(back)s - 1
  limit 1
) as earlier
where voice.org_id = %(org_id)s and voice.id = any (%(message_ids)s);

-- name: said_since -> MessageRef
-- What is said in a room from a time on, by anybody or by some, of everything or of these.
-- Uses index: messages_in_order
select said.id as message_id
from messages as said
where said.org_id = %(org_id)s
  and said.room_id = %(room_id)s
  and said.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and (%(author_ids)s::uuid[] is null or said.author_id = any (%(author_ids)s::uuid[]))
  and (%(among)s::uuid[] is null or said.id = any (%(among)s::uuid[]));

-- name: said_by -> MessageRef
-- What these authors said in a room with one of these words, each author with the word beside.
-- Uses index: messages_by_author
select distinct said.id as message_id
from unnest(%(author_id)s::uuid[], %(pattern)s::text[]) as asked (author_id, pattern)
join messages as said
  on said.org_id = %(org_id)s
  and said.author_id = asked.author_id
  and said.room_id = %(room_id)s
  and lower(said.body) like asked.pattern
where said.kind in ('message', 'whisper') and said.redacted_at is null;

-- name: holders -> WordHolder
-- Who in a room says these values, each asked for by a message that voices a wish: all who do; and of a value that more
-- messages than so many said before, the author of that message alone. One reading of the room for all values.
with asked as (
  select
    one.voice_id, one.pattern, one.most, voice.author_id, voice.sent_at, voice.native_order, voice.id,
    -- whole words, with nothing but signs between them
    '(^|[^[:alnum:]])' || replace(replace(btrim(one.pattern, '%%'), '_', '.'), '%%', '[^[:alnum:]]+')
      || '($|[^[:alnum:]])' as spelled
  from unnest(%(voice_id)s::uuid[], %(pattern)s::text[], %(most)s::integer[]) as one (voice_id, pattern, most)
  join messages as voice on voice.org_id = %(org_id)s and voice.id = one.voice_id
),
holding as materialized (
  select said.id, said.author_id, said.sent_at, said.native_order, lower(said.body) as text
  from messages as said
  where said.org_id = %(org_id)s
    and said.room_id = %(room_id)s
    and said.kind in ('message', 'whisper')
    and said.redacted_at is null
    and lower(said.body) like any (%(pattern)s::text[])
),
saying as materialized (
  select
    asked.voice_id, asked.pattern, asked.most, holding.id as message_id, holding.author_id = asked.author_id as is_own,
    (holding.sent_at, holding.native_order, holding.id) < (asked.sent_at, asked.native_order, asked.id) as is_before
  from asked
  join holding on holding.text like asked.pattern and holding.text ~ asked.spelled
),
counted as (
  select
    asked.voice_id, asked.pattern,
    (
      select count(*)
      from saying
      where saying.voice_id = asked.voice_id and saying.pattern = asked.pattern and saying.is_before
    ) > asked.most as is_common
  from asked
)
select counted.voice_id, counted.pattern, counted.is_common, saying.message_id
from counted
left join saying
  on saying.voice_id = counted.voice_id
  and saying.pattern = counted.pattern
  and (saying.is_own or not counted.is_common);

-- name: said_around -> MessageRef
-- What these messages answer and what answers them, by the platform's word.
-- Uses indexes: replies_from, replies_to
select parent_id as message_id
from replies
where org_id = %(org_id)s and child_id = any (%(message_ids)s) and method = 'explicit' and parent_id is not null
union
select child_id
from replies
where org_id = %(org_id)s and parent_id = any (%(message_ids)s) and method = 'explicit';

-- name: said_by_ids -> RoomMessage
-- These messages, as wishes look at them; those without words are not there.
select
  said.id, said.room_id, said.author_id, said.author_name, said.author_kind, said.body, said.sent_at,
  said.native_order,
  (
    select answered.parent_id
    from replies as answered
    where answered.org_id = said.org_id and answered.child_id = said.id and answered.method = 'explicit'
  ) as reply_to
from messages as said
where said.org_id = %(org_id)s
  and said.id = any (%(message_ids)s)
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
order by said.id;

-- name: people_of -> RoomParticipant
-- Who has spoken in these rooms or is a member, as each is called.
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
-- the author of holes is nobody
where participants.id <> participants.org_id
order by present.room_id, participants.id;

-- name: put
-- Keep wishes; of one that is there already what it covers is written anew.
insert into wishes (
  org_id, id, room_id, message_id, author_id, kind, status, decided_at, doubt, heard_by, heard_at, target_ids, marks, own_marks, from_ids,
  spared_ids, is_standing, since, permits, denies, of_ids, told
)
select
  %(org_id)s, heard.id, heard.room_id, heard.message_id, heard.author_id, heard.kind, heard.status,
  -- what somebody decided is there already, with when; this row then only takes its place
  case when heard.status = 'dismissed' then %(heard_at)s::timestamptz end,
  heard.doubt, heard.heard_by, %(heard_at)s,
  array(select jsonb_array_elements_text(heard.target_ids)::uuid),
  array(select jsonb_array_elements_text(heard.marks)),
  array(select jsonb_array_elements_text(heard.own_marks)),
  case when heard.from_ids is not null then array(select jsonb_array_elements_text(heard.from_ids)::uuid) end,
  array(select jsonb_array_elements_text(heard.spared_ids)::uuid),
  heard.is_standing, heard.since,
  array(select jsonb_array_elements_text(heard.permits)),
  array(select jsonb_array_elements_text(heard.denies)),
  case when heard.of_ids is not null then array(select jsonb_array_elements_text(heard.of_ids)::uuid) end,
  heard.told
from jsonb_to_recordset(%(rows)s::jsonb) as heard (
  id uuid, room_id uuid, message_id uuid, author_id uuid, kind text, status text, doubt text, heard_by text, told jsonb, target_ids jsonb,
  marks jsonb, own_marks jsonb, from_ids jsonb, spared_ids jsonb, is_standing boolean, since timestamptz, permits jsonb, denies jsonb,
  of_ids jsonb
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

-- name: add_withheld
-- Withhold messages for active wishes. What stays between some, its own author is spared too: a wish of somebody else
-- keeps nobody's words from themselves.
insert into withheld (org_id, message_id, wish_id, from_ids, spared_ids)
select
  %(org_id)s, kept.message_id, wishes.id, wishes.from_ids,
  case
    when wishes.kind = 'confide' then array_remove(wishes.spared_ids, said.author_id) || said.author_id
    else wishes.spared_ids
  end
from unnest(%(voice_id)s::uuid[], %(message_id)s::uuid[]) as kept (voice_id, message_id)
join wishes on wishes.org_id = %(org_id)s and wishes.message_id = kept.voice_id and wishes.status = 'active'
join messages as said on said.org_id = %(org_id)s and said.id = kept.message_id
on conflict (org_id, message_id, wish_id) do update
set from_ids = excluded.from_ids, spared_ids = excluded.spared_ids;

-- name: release
-- Withhold nothing any more for the wishes that these messages voice.
delete from withheld
using wishes
where wishes.org_id = %(org_id)s
  and wishes.message_id = any (%(message_ids)s)
  and withheld.org_id = wishes.org_id
  and withheld.wish_id = wishes.id;

-- name: release_wish
-- Withhold nothing any more for a wish.
delete from withheld where org_id = %(org_id)s and wish_id = %(id)s;

-- name: release_messages
-- Withhold these messages no more, but for wishes that are gone: what they were about is known no more.
delete from withheld
using wishes
where withheld.org_id = %(org_id)s
  and withheld.message_id = any (%(message_ids)s)
  and wishes.org_id = withheld.org_id
  and wishes.id = withheld.wish_id
  and wishes.message_id is not null;

-- name: drop_withheld
-- Forget that these messages are withheld.
delete from withheld where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: bury
-- Leave nothing of the wishes to forget that these messages voice but what else is withheld for them.
update wishes
set message_id = null, author_id = null, told = null, target_ids = '{}', marks = '{}', own_marks = '{}'
where org_id = %(org_id)s
  and message_id = any (%(message_ids)s)
  and kind = 'forget'
  and status = 'active'
  and exists (select 1 from withheld where withheld.org_id = wishes.org_id and withheld.wish_id = wishes.id);

-- name: drop_idle
-- Forget the wishes that are gone and for which nothing is withheld any more.
-- Uses index: wishes_gone
delete from wishes
where org_id = %(org_id)s
  and message_id is null
  and not exists (select 1 from withheld where withheld.org_id = wishes.org_id and withheld.wish_id = wishes.id);

-- name: drop
-- Forget the wishes that these messages voice.
delete from wishes where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: any_withheld -> MessageRef
-- One of these messages that wishes withhold from anybody, if there is one.
select message_id
from withheld
where org_id = %(org_id)s and message_id = any (%(message_ids)s)
limit 1;

-- name: release_all
-- Withhold nothing any more, but for wishes that are gone: what they were about is known no more.
delete from withheld
using wishes
where withheld.org_id = %(org_id)s
  and wishes.org_id = withheld.org_id
  and wishes.id = withheld.wish_id
  and wishes.message_id is not null;

-- name: present_at -> PresentParticipant
-- Who was a member of the room when these messages were said, and who was whispered to. Whoever only spoke in an open
-- room once is no member of it.
select said.id as message_id, stays.participant_id
from messages as said
join rooms on rooms.org_id = said.org_id and rooms.id = said.room_id
join memberships as stays
  on stays.org_id = said.org_id
  and stays.room_id = said.room_id
  and stays.joined_at <= said.sent_at
  and (stays.left_at is null or stays.left_at > said.sent_at)
  and (not stays.implied or rooms.visibility = 'members')
join participants on participants.org_id = stays.org_id and participants.id = stays.participant_id
where said.org_id = %(org_id)s
  and said.id = any (%(message_ids)s)
  -- what an agent recalls it may tell to all who may read an open room
  and (participants.kind <> 'agent' or rooms.visibility = 'members')
union
select message_audience.message_id, message_audience.participant_id
from message_audience
where message_audience.org_id = %(org_id)s and message_audience.message_id = any (%(message_ids)s);

-- name: forget_people
-- Take participants out of what wishes say of whom.
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
  -- one that names nobody any more waits again: whoever comes back under their name is who is meant
  told = case when heard_by <> 'rules' or from_ids is null or not from_ids <@ %(participant_ids)s::uuid[] then told end
where org_id = %(org_id)s
  and (
    from_ids && %(participant_ids)s::uuid[]
    or spared_ids && %(participant_ids)s::uuid[]
    or of_ids && %(participant_ids)s::uuid[]
    or decided_by = any (%(participant_ids)s)
  );

-- name: forget_people_withheld
-- Take participants out of from whom messages are withheld.
update withheld
set
  from_ids = case
    when from_ids is not null then array(select one from unnest(from_ids) as one where one <> all (%(participant_ids)s::uuid[]))
  end,
  spared_ids = array(select one from unnest(spared_ids) as one where one <> all (%(participant_ids)s::uuid[]))
where org_id = %(org_id)s
  and (from_ids && %(participant_ids)s::uuid[] or spared_ids && %(participant_ids)s::uuid[]);

-- What people review of the wishes that were heard, and what they decide.

-- name: all_of -> RequestReview
-- The newest wishes that the viewer may see, newest first, as many as one answer holds.
select
  id, room_id, room_name, message_id, author_id, author_name, kind, status, doubt, heard_by, sent_at, body, decided_at,
  decided_by, from_ids, spared_ids, is_standing, permits, denies, told, reach
from (
  select
    wishes.id, wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, wishes.message_id, wishes.author_id,
    coalesce(said.author_name, '') as author_name, wishes.kind, wishes.status, wishes.doubt, wishes.heard_by, said.sent_at,
    coalesce(said.body, '') as body, wishes.decided_at, wishes.decided_by, wishes.from_ids, wishes.spared_ids,
    wishes.is_standing, wishes.permits, wishes.denies, wishes.told, coalesce(octet_length(said.body), 0) as size,
    sum(coalesce(octet_length(said.body), 0)) over (
      order by said.sent_at desc nulls last, wishes.id desc rows unbounded preceding
    )::bigint as reach
  from wishes
  left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
  left join messages as said on said.org_id = wishes.org_id and said.id = wishes.message_id
  where wishes.org_id = %(org_id)s
    and (%(room_id)s::uuid is null or wishes.room_id = %(room_id)s)
    and (%(status)s::text is null or wishes.status = %(status)s)
    and (
      wishes.id between %(low)s and %(high)s
      or wishes.id_from_end between %(end_low)s and %(end_high)s
    )
    -- one that names nobody who is known waits, and means nothing yet
    and (wishes.from_ids is null or wishes.from_ids <> '{}')
  order by said.sent_at desc nulls last, wishes.id desc
  limit %(limit)s
) as found
where reach - size < %(most_bytes)s
order by sent_at desc nulls last, id desc;

-- name: covered_by -> CoveredMessage
-- What wishes withhold, and what proposed ones would at least, oldest first.
select held.wish_id, said.id as message_id
from (
  select withheld.wish_id, withheld.message_id
  from withheld
  where withheld.org_id = %(org_id)s and withheld.wish_id = any (%(wish_ids)s)
  union
  select wishes.id, unnest(wishes.target_ids)
  from wishes
  where wishes.org_id = %(org_id)s and wishes.id = any (%(wish_ids)s) and wishes.status = 'proposed'
) as held
join messages as said on said.org_id = %(org_id)s and said.id = held.message_id
order by said.sent_at, said.native_order, said.id;

-- name: withheld_of -> RestrictedMessage
-- Which wishes withhold these messages, and from whom.
select
  withheld.message_id, withheld.wish_id, wishes.kind, wishes.author_id, coalesce(voice.author_name, '') as author_name,
  wishes.room_id, coalesce(called_room(rooms.workspace, rooms.name), '') as room_name, withheld.from_ids
from withheld
join wishes on wishes.org_id = withheld.org_id and wishes.id = withheld.wish_id
left join messages as voice on voice.org_id = wishes.org_id and voice.id = wishes.message_id
left join rooms on rooms.org_id = wishes.org_id and rooms.id = wishes.room_id
where withheld.org_id = %(org_id)s and withheld.message_id = any (%(message_ids)s)
  -- one that names nobody who is known keeps it from nobody
  and (withheld.from_ids is null or withheld.from_ids <> '{}')
order by withheld.message_id, withheld.wish_id;

-- name: counts -> RequestCounts
-- How many wishes were carried out, proposed and dismissed, of those that the viewer may see.
select
  count(*) filter (where status = 'active')::integer as carried_out,
  count(*) filter (where status = 'proposed')::integer as proposed,
  count(*) filter (where status = 'dismissed')::integer as dismissed
from wishes
-- one that names nobody who is known waits, and means nothing yet
where org_id = %(org_id)s and (from_ids is null or from_ids <> '{}');

-- name: decide
-- Note what somebody decided about a wish.
update wishes
set status = %(status)s, decided_at = %(at)s, decided_by = %(by)s
where org_id = %(org_id)s and id = %(id)s and status <> %(status)s;

-- name: mode -> ModeRow
-- What an org does with the requests it hears.
select wish_mode as mode from orgs where org_id = %(org_id)s;

-- name: set_mode
-- Say what an org does with the requests it hears.
update orgs set wish_mode = %(mode)s where org_id = %(org_id)s;

-- name: rooms_with_wishes -> RoomRef
-- The rooms in which wishes were heard.
select distinct room_id from wishes where org_id = %(org_id)s and message_id is not null order by room_id;

-- name: anything_withheld -> RestrictionFlag
-- Whether anything is withheld in the org, also asked by who reads for a place.
select org_withholds() as is_any;

-- name: withheld_in_org -> RestrictedRef
-- All that is withheld in the org.
select distinct message_id from withheld where org_id = %(org_id)s;
