-- Untangling: rooms to go through, what is read of them, and the edges, conversations and placements found.

-- name: touch_rooms
-- Ask for rooms to be gone through, each from one time to another.
insert into work (org_id, stage, subject_id, since, until)
select %(org_id)s, 'untangle', stretch.room_id, stretch.since, stretch.until
from unnest(%(room_ids)s::uuid[], %(since)s::timestamptz[], %(until)s::timestamptz[])
  as stretch (room_id, since, until)
order by stretch.room_id
on conflict (org_id, stage, subject_id) do update
set
  version = work.version + 1,
  -- whoever has taken the room comes back to it by themselves
  due_at = case when work.taken_since is null or work.set_aside_at is not null then now() else work.due_at end,
  attempts = case when work.taken_since is null or work.set_aside_at is not null then 0 else work.attempts end,
  failures = 0, error = null, set_aside_at = null,
  since = least(work.since, excluded.since), until = greatest(work.until, excluded.until);

-- name: touch_rooms_of_added
-- Ask for rooms to be gone through where something was just said.
insert into work (org_id, stage, subject_id, since, until)
select %(org_id)s, 'untangle', room_id, min(sent_at), max(sent_at)
from pg_temp.incoming
where kind in ('message', 'whisper')
group by room_id
order by room_id
on conflict (org_id, stage, subject_id) do update
set
  version = work.version + 1,
  -- whoever has taken the room comes back to it by themselves
  due_at = case when work.taken_since is null or work.set_aside_at is not null then now() else work.due_at end,
  attempts = case when work.taken_since is null or work.set_aside_at is not null then 0 else work.attempts end,
  failures = 0, error = null, set_aside_at = null,
  since = least(work.since, excluded.since), until = greatest(work.until, excluded.until);

-- name: touch_rooms_of
-- Ask for rooms to be gone through where these messages stand and where they are answered. Whoever only looks what
-- would go asks for nothing: everybody who says something in those rooms would wait for it.
insert into work (org_id, stage, subject_id, since, until)
select messages.org_id, 'untangle', messages.room_id, min(messages.sent_at), max(messages.sent_at)
from messages
where messages.org_id = %(org_id)s
  and messages.id in (
    select unnest(%(message_ids)s::uuid[])
    union all
    select replies.child_id
    from replies
    where replies.org_id = %(org_id)s and replies.parent_id = any (%(message_ids)s)
  )
  and current_setting('roomlore.looking', true) is distinct from 'on'
group by messages.org_id, messages.room_id
order by messages.room_id
on conflict (org_id, stage, subject_id) do update
set
  version = work.version + 1,
  -- whoever has taken the room comes back to it by themselves
  due_at = case when work.taken_since is null or work.set_aside_at is not null then now() else work.due_at end,
  attempts = case when work.taken_since is null or work.set_aside_at is not null then 0 else work.attempts end,
  failures = 0, error = null, set_aside_at = null,
  since = least(work.since, excluded.since), until = greatest(work.until, excluded.until);

-- name: touch_unplaced
-- Ask for every room to be gone through where something was said and stands in no conversation.
insert into work (org_id, stage, subject_id, since, until)
select messages.org_id, 'untangle', messages.room_id, min(messages.sent_at), max(messages.sent_at)
from messages
where messages.org_id = %(org_id)s
  and messages.kind in ('message', 'whisper')
  and messages.erased_at is null
  and not exists (
    select 1
    from placements
    where placements.org_id = %(org_id)s and placements.message_id = messages.id
  )
group by messages.org_id, messages.room_id
order by messages.room_id
on conflict (org_id, stage, subject_id) do nothing;

-- name: take_stretch -> LeasedRange
-- What has changed in a room joins what was taken before and not finished. Each taking has a mark of its own: who
-- took the same before may have read what was there before the change.
update work
set
  taken_since = least(taken_since, since), taken_until = greatest(taken_until, until), since = null, until = null,
  taking = gen_random_uuid()
where org_id = %(org_id)s and stage = 'untangle' and subject_id = %(room_id)s
returning taken_since as since, taken_until as until, taking;

-- name: lock_stretch -> RangeState
-- Hold the work of a room, and tell who took it last and from when on something has changed since.
select since as changed_since, taking
from work
where org_id = %(org_id)s and stage = 'untangle' and subject_id = %(room_id)s
for update;

-- name: put_back
-- Leave what is still to be gone through of a room.
update work
set
  taken_since = %(since)s, taken_until = %(until)s, due_at = now(), asked_at = now(), attempts = 0, failures = 0,
  error = null
where org_id = %(org_id)s and stage = 'untangle' and subject_id = %(room_id)s;

-- name: finish_room
-- Forget the work of a room through which everything was gone.
delete from work where org_id = %(org_id)s and stage = 'untangle' and subject_id = %(room_id)s;

-- name: said_from -> MessageRef
-- What was said in a room from a time on, all of one time together.
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

-- name: said_before -> MessageRef
-- The last of what was said aloud in a room before a time, and what was whispered not long before it.
-- Uses index: messages_in_order
(
  select id
  from messages
  where org_id = %(org_id)s
    and room_id = %(room_id)s
    and sent_at < %(since)s
    and kind = 'message'
    and erased_at is null
  order by sent_at desc, native_order desc, id desc
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

-- name: heard -> RoomMessage
-- What untangling reads of messages, in the order of their room. Each table is asked message by message, through
-- an index, whatever the planner believes about its size.
-- Uses indexes: replies_from, replies_found
select
  said.id, said.kind, said.author_id, said.author_name, said.body, said.sent_at, said.native_order,
  hearers(said) as hearers,
  stated.parent_id as stated_parent, stated.method as stated_method,
  found.parent_id as found_parent, found.method as found_method, found.confidence as found_confidence,
  placements.conversation_id, coalesce(placements.by_hand, false) as by_hand, placements.quiet_after,
  case
    when said.mentions is null then '{}'
    else array(
      select identities.participant_id
      from rooms
      join identities
        on identities.org_id = rooms.org_id
        and identities.platform = rooms.platform
        and identities.account_id in (select jsonb_array_elements_text(said.mentions))
      where rooms.org_id = said.org_id and rooms.id = said.room_id
      order by identities.participant_id
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
  select replies.parent_id, replies.method, replies.confidence
  from replies
  where replies.org_id = said.org_id
    and replies.child_id = said.id
    and replies.method in ('mention', 'inferred')
  offset 0
) as found on true
left join lateral (
  select held.conversation_id, held.by_hand, held.quiet_after
  from placements as held
  where held.org_id = said.org_id and held.message_id = said.id
  offset 0
) as placements on true
where said.org_id = %(org_id)s and said.id = any (%(message_ids)s)
order by said.sent_at, said.native_order, said.id;

-- name: placements_of -> ConversationAssignment
-- Where these messages stand.
select message_id, conversation_id, quiet_after
from placements
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: drop_found
-- Remove the edges that were found from these messages to what they answer.
delete from replies
where org_id = %(org_id)s and child_id = any (%(message_ids)s) and method in ('mention', 'inferred');

-- name: add_found
-- Add the edges found; a message that went meanwhile gets none.
insert into replies (org_id, room_id, child_id, parent_id, method, confidence)
select %(org_id)s, child.room_id, found.child_id, found.parent_id, found.method, found.confidence
from unnest(%(child_id)s::uuid[], %(parent_id)s::uuid[], %(method)s::text[], %(confidence)s::real[])
  as found (child_id, parent_id, method, confidence)
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
set parent_id = excluded.parent_id, method = excluded.method, confidence = excluded.confidence;

-- name: add_conversations
-- Add conversations, or say anew why they are some of their own.
insert into conversations (org_id, id, room_id, boundary, opened_at, last_at, quiet_after)
select %(org_id)s, id, room_id, boundary, opened_at, opened_at, quiet_after
from unnest(
  %(id)s::uuid[], %(room_id)s::uuid[], %(boundary)s::text[], %(opened_at)s::timestamptz[],
  %(quiet_after)s::interval[]
) as opened (id, room_id, boundary, opened_at, quiet_after)
on conflict (org_id, id) do update
set boundary = excluded.boundary
where conversations.boundary <> excluded.boundary and conversations.boundary <> 'person';

-- name: place
-- Put messages into conversations; one that a person placed stays, and one that went meanwhile gets no place.
insert into placements (org_id, message_id, conversation_id, quiet_after)
select %(org_id)s, placed.message_id, placed.conversation_id, placed.quiet_after
from unnest(%(message_id)s::uuid[], %(conversation_id)s::uuid[], %(quiet_after)s::interval[])
  as placed (message_id, conversation_id, quiet_after)
cross join lateral (
  select id
  from messages
  where org_id = %(org_id)s and id = placed.message_id and erased_at is null
  limit 1
) as said
on conflict (org_id, message_id) do update
set
  conversation_id = case when placements.by_hand then placements.conversation_id else excluded.conversation_id end,
  quiet_after = excluded.quiet_after;

-- name: follow -> ChangedConversation
-- Place what answers these messages, directly or not, where they stand; what a person placed stays, and so does
-- what answers that.
with recursive below as (
  select placements.message_id, placements.conversation_id
  from placements
  where placements.org_id = %(org_id)s and placements.message_id = any (%(message_ids)s)
  union
  select child.message_id, below.conversation_id
  from below
  cross join lateral (
    select held.message_id
    from replies
    cross join lateral (
      select placed.message_id, placed.by_hand
      from placements as placed
      where placed.org_id = replies.org_id and placed.message_id = replies.child_id
      limit 1
    ) as held
    where replies.org_id = %(org_id)s
      and replies.parent_id = below.message_id
      and not held.by_hand
      and replies.method = (
        select answers.method
        from answers
        where answers.org_id = %(org_id)s
          and answers.child_id = replies.child_id
          and answers.parent_id = replies.parent_id
      )
    offset 0
  ) as child
),
stale as (
  select placements.message_id, placements.conversation_id as was, below.conversation_id
  from below
  join placements on placements.org_id = %(org_id)s and placements.message_id = below.message_id
  where placements.conversation_id <> below.conversation_id
),
moved as (
  update placements
  set conversation_id = stale.conversation_id
  from stale
  where placements.org_id = %(org_id)s and placements.message_id = stale.message_id
)
select distinct touched.conversation_id
from stale
cross join lateral (values (stale.was), (stale.conversation_id)) as touched (conversation_id);

-- name: refresh
-- Say from when to when messages are in these conversations, and how long a silence ends them.
-- Uses index: placements_in
update conversations
set
  opened_at = span.opened_at, last_at = span.last_at, quiet_after = coalesce(span.quiet_after, conversations.quiet_after)
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral (
  select
    min(said.sent_at) as opened_at,
    max(said.sent_at) as last_at,
    (array_agg(placements.quiet_after order by said.sent_at desc, said.native_order desc, said.id desc))[1]
      as quiet_after
  from placements
  cross join lateral (
    select messages.sent_at, messages.native_order, messages.id
    from messages
    where messages.org_id = placements.org_id and messages.id = placements.message_id
    limit 1
  ) as said
  where placements.org_id = %(org_id)s and placements.conversation_id = asked.id
) as span
where conversations.org_id = %(org_id)s
  and conversations.id = asked.id
  and span.opened_at is not null
  and (conversations.opened_at, conversations.last_at, conversations.quiet_after)
    is distinct from (span.opened_at, span.last_at, coalesce(span.quiet_after, conversations.quiet_after));

-- name: drop_empty
-- Remove those of these conversations in which nothing is left.
delete from conversations
where org_id = %(org_id)s
  and id = any (%(conversation_ids)s)
  and not exists (
    select 1
    from placements
    where placements.org_id = %(org_id)s and placements.conversation_id = conversations.id
  );

-- name: words_of -> ConversationText
-- How these conversations begin, in words; and those of the words that may be told: neither what a wish wants forgotten
-- or kept between some, nor what voices a wish.
-- Uses index: placements_in
select
  asked.id,
  array_agg(begun.body order by begun.sent_at, begun.native_order, begun.id) as bodies,
  array_agg(begun.body order by begun.sent_at, begun.native_order, begun.id) filter (
    where not exists (
      select 1
      from withheld
      join wishes on wishes.org_id = withheld.org_id and wishes.id = withheld.wish_id
      where withheld.org_id = %(org_id)s
        and withheld.message_id = begun.id
        and (withheld.from_ids is null or wishes.message_id = begun.id)
    )
  ) as told,
  array_agg(distinct begun.author_name) as names
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
cross join lateral (
  select said.id, said.author_name, said.body, said.sent_at, said.native_order
  from placements
  cross join lateral (
    select messages.id, messages.author_name, messages.body, messages.sent_at, messages.native_order
    from messages
    where messages.org_id = placements.org_id and messages.id = placements.message_id
    limit 1
  ) as said
  where placements.org_id = %(org_id)s and placements.conversation_id = asked.id
  order by said.sent_at, said.native_order, said.id
  limit %(limit)s
) as begun
group by asked.id;

-- name: with_whispers -> ChangedConversation
-- Those of these conversations in which something was whispered.
-- Uses index: placements_in
select asked.id as conversation_id
from unnest(%(conversation_ids)s::uuid[]) as asked (id)
where exists (
  select
  from placements
  join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
  where placements.org_id = %(org_id)s and placements.conversation_id = asked.id and messages.kind = 'whisper'
);

-- name: describe -> ChangedConversation
-- Say what conversations are about and how sensitive they are, unless a person did.
-- What a language model called one stays as long as nothing in it has changed. Those of which that can be seen are told.
with described as (
  update conversations
  set
    label = case
      when conversations.is_named or (conversations.is_titled and still_asked(conversations)) then conversations.label
      else told.label
    end,
    is_titled = conversations.is_titled and still_asked(conversations),
    asked_state = case when still_asked(conversations) then conversations.asked_state end,
    sensitivity = case
      when conversations.is_marked or (told.goes_on and conversations.sensitivity = 'sensitive')
        then conversations.sensitivity
      else told.sensitivity
    end,
    spoken_by = case
      when conversations.is_marked or conversations.sensitivity = 'sensitive'
        and (told.goes_on or told.sensitivity = 'sensitive')
        then conversations.spoken_by
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
