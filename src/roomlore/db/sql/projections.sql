-- Copies of what is known, in other servers.

-- name: renew -> SubjectRef
-- Lease what was taken anew, and tell which of it is still ours.
update work
set due_at = clock_timestamp() + interval '2 minutes'
from unnest(%(subject_id)s::uuid[], %(attempts)s::integer[]) as taken (subject_id, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = taken.subject_id
  and work.attempts = taken.attempts
  and work.set_aside_at is null
returning work.subject_id as id;

-- name: finish
-- Forget what was written and has not changed since.
delete from work
using unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as done (subject_id, version, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = done.subject_id
  and work.version = done.version
  and work.attempts = done.attempts;

-- name: do_again
-- Let what has changed since it was taken be due again. In a statement of its own: it sees what was asked for while the
-- one before it waited. What was asked for before the last reading was in it: who is always busy would seem to have waited
-- from the beginning, and no copy would ever be whole.
update work
set due_at = now(), attempts = 0, asked_at = greatest(work.asked_at, work.due_at - interval '2 minutes')
from unnest(%(subject_id)s::uuid[], %(version)s::integer[], %(attempts)s::integer[])
  as taken (subject_id, version, attempts)
where work.org_id = %(org_id)s
  and work.stage = %(target)s
  and work.subject_id = taken.subject_id
  and work.version > taken.version
  and work.attempts = taken.attempts;

-- name: all -> Projection
-- The projections of an org.
select target, copy, model, dimensions, next_copy, next_model, next_dimensions, next_since, turn, failing_since, error
from projections
where org_id = %(org_id)s
order by target;

-- name: turn -> Projection
-- Take the next turn in reading for a target. Whoever takes one later reads what is there later: the row is held until
-- the transaction ends.
update projections
set turn = turn + 1
where org_id = %(org_id)s and target = %(target)s
returning
  target, copy, model, dimensions, next_copy, next_model, next_dimensions, next_since, turn, failing_since, error;

-- name: begin_copy
-- Say that a copy is to be built, in place of one that was being built; the one that is read may be lost.
insert into projections (org_id, target, next_copy, next_model, next_dimensions)
values (%(org_id)s, %(target)s, %(copy)s, %(model)s, %(dimensions)s)
on conflict (org_id, target) do update
set
  copy = case when not %(is_lost)s then projections.copy end,
  model = case when not %(is_lost)s then projections.model end,
  dimensions = case when not %(is_lost)s then projections.dimensions end,
  next_copy = excluded.next_copy,
  next_model = excluded.next_model,
  next_dimensions = excluded.next_dimensions,
  next_xid = null,
  next_after = null,
  next_since = null;

-- name: announce
-- Note a transaction that began after the copy that is to be built was there to be seen.
update projections
set next_xid = pg_current_xact_id()
where org_id = %(org_id)s and target = %(target)s and next_copy is not null and next_xid is null;

-- name: asking -> RebuildPosition
-- Up to where was asked for what the copy is to hold that is to be built, if all who may not have known of it are through
-- and it was not asked for everything. Nobody else asks until the transaction ends.
select next_after as after
from projections
where org_id = %(org_id)s
  and target = %(target)s
  and next_copy is not null
  and next_since is null
  and next_xid < pg_snapshot_xmin(pg_current_snapshot())
for update;

-- name: note_asked
-- Say up to where was asked, or that everything was.
update projections
set
  next_after = case when not %(is_last)s then %(after)s::uuid end,
  next_since = case when %(is_last)s then clock_timestamp() end
where org_id = %(org_id)s and target = %(target)s and next_copy is not null;

-- name: switch
-- Read the copy that was being built, once all that was asked for when it was begun is written.
-- Uses index: work_asked
update projections
set
  copy = next_copy, model = next_model, dimensions = next_dimensions,
  next_copy = null, next_model = null, next_dimensions = null, next_xid = null, next_since = null
where org_id = %(org_id)s
  and target = %(target)s
  and next_copy is not null
  and next_since is not null
  and not exists (
    select from work
    where work.org_id = %(org_id)s
      and work.stage = %(target)s
      and work.set_aside_at is null
      and work.asked_at <= projections.next_since
  );

-- name: stop
-- Have no copies of a target any more.
delete from projections where org_id = %(org_id)s and target = %(target)s;

-- name: drop_asked
-- Forget what was asked for a target.
delete from work where org_id = %(org_id)s and stage = %(target)s;

-- name: note_outage
-- Say how a server fails, and keep since when.
update projections
set failing_since = coalesce(failing_since, clock_timestamp()), error = %(error)s
where org_id = %(org_id)s and target = %(target)s and (failing_since is null or error is distinct from %(error)s);

-- name: note_recovery
-- Say that a server fails no longer.
update projections
set failing_since = null, error = null
where org_id = %(org_id)s and target = %(target)s and failing_since is not null;

-- name: backlog -> BacklogRow
-- How much waits to be written to the copies of a target, how much was set aside, and how long the oldest has waited.
-- Uses index: work_asked
select
  count(*) filter (where set_aside_at is null) as waiting,
  count(*) filter (where set_aside_at is not null) as set_aside,
  coalesce(extract(epoch from clock_timestamp() - min(asked_at) filter (where set_aside_at is null)), 0)::float8
    as lag_seconds
from work
where org_id = %(org_id)s and stage = %(target)s;

-- name: behind -> LagRow
-- Whether a copy lacks what was changed half a minute ago, or what its server would not take.
-- Uses index: work_asked
select exists (
  select from work
  where org_id = %(org_id)s
    and stage = %(target)s
    and (asked_at < now() - interval '30 seconds' or set_aside_at is not null)
) as is_behind;

-- name: lacking -> LagRow
-- Whether anything is still to be written to a copy, or was set aside.
-- Uses index: work_asked
select exists (select from work where org_id = %(org_id)s and stage = %(target)s) as is_behind;

-- name: points -> PointRow
-- Messages as they are copied, those that are to have a copy: what was said and is still there. With all the exchange
-- they belong to is known by: what opens it, up to a hundred answers away.
-- Uses index: replies_from
select
  said.id, said.room_id, said.kind, said.author_id, said.author_name, said.author_kind, said.sent_at,
  said.native_order, standing.conversation_id, answered.parent_id as reply_to,
  coalesce(opening.id, said.id) as exchange_id,
  case when said.kind = 'whisper' then coalesce(addressed.ids, '{}') end as audience,
  made.embedding, coalesce(words.lexemes, '{}') as lexemes, coalesce(words.counts, '{}') as counts
from messages as said
left join placements as standing on standing.org_id = said.org_id and standing.message_id = said.id
left join lateral (
  select edge.parent_id
  from exchange_edges as edge
  where edge.org_id = said.org_id and edge.child_id = said.id
  order by edge.parent_id
  limit 1
) as answered on true
left join lateral (
  with recursive up as (
    select answered.parent_id as id, 1 as steps
    where answered.parent_id is not null
    union all
    select above.parent_id, up.steps + 1
    from up
    cross join lateral (
      select edge.parent_id
      from exchange_edges as edge
      where edge.org_id = said.org_id and edge.child_id = up.id
      order by edge.parent_id
      limit 1
    ) as above
    where up.steps < 100
  )
  select up.id from up order by up.steps desc limit 1
) as opening on true
left join lateral (
  select array_agg(audience.participant_id order by audience.participant_id) as ids
  from message_audience as audience
  where audience.org_id = said.org_id and audience.message_id = said.id
) as addressed on true
left join message_embeddings as made
  on made.org_id = said.org_id and made.message_id = said.id and made.model = %(model)s
left join lateral (
  select
    array_agg(word.lexeme order by word.lexeme) as lexemes,
    array_agg(coalesce(cardinality(word.positions), 1) order by word.lexeme) as counts
  from unnest(said.words) as word
) as words on true
where said.org_id = %(org_id)s
  and said.id = any (%(ids)s)
  and said.kind in ('message', 'whisper')
  and said.redacted_at is null
  and said.erased_at is null;

-- name: ids_after -> SubjectRef
-- What is to have a copy, behind an id, in the order of ids.
select id
from messages
where org_id = %(org_id)s
  and id > coalesce(%(after)s::uuid, '00000000-0000-0000-0000-000000000000')
  and kind in ('message', 'whisper')
  and redacted_at is null
  and erased_at is null
order by id
limit %(limit)s;

-- name: sight -> VisibilityRow
-- What the viewer may read, as far as it is up to rooms and to whom the viewer is.
select
  viewer_is_operator() as is_operator,
  viewer_is_agent() as is_agent,
  own_ids() as own_ids,
  array(select open.room_id from open_rooms_of_viewer as open) as open_room_ids;

-- name: stays -> MembershipPeriod
-- When the viewer was a member of which room.
select room_id, nullif(joined_at, '-infinity') as joined_at, left_at from stays_of_viewer;

-- name: waiting -> SubjectRef
-- Which of these subjects are still to be written to the copies of a target.
select subject_id as id
from work
where org_id = %(org_id)s and stage = %(target)s and subject_id = any (%(ids)s::uuid[]) and set_aside_at is null;

-- What is to be written to copies in other servers once more, or removed from them.

-- name: ask -> EnqueuedCount
-- Ask for messages to be written to every copy.
select ask_for_copies(%(ids)s::uuid[]) as count;

-- name: ask_nodes -> EnqueuedCount
-- Ask for what only graphs hold.
select ask_for_nodes(%(ids)s::uuid[]) as count;

-- name: ask_in -> EnqueuedCount
-- Ask for subjects to be written to the copies of one target.
select ask_for_copies_in(array[%(target)s::text], %(ids)s::uuid[]) as count;

-- name: ask_added -> EnqueuedCount
-- Ask for the messages just added, and in graphs for who wrote them, and for notices.
select ask_for_copies(
  array(
    select id from pg_temp.incoming
    where kind in ('message', 'whisper') and exists (select from projections where org_id = %(org_id)s)
  )
) + ask_for_nodes(
  array(
    select case kind when 'system' then id else author_id end
    from pg_temp.incoming
    where kind in ('message', 'whisper', 'system')
      and exists (select from projections where org_id = %(org_id)s and target = 'neo4j')
  )
) as count;

-- name: ask_below -> EnqueuedCount
-- Ask for messages and whatever answers them, directly or not: they open or join another exchange now.
-- Uses index: replies_to
with recursive below as (
  select named.id
  from unnest(%(ids)s::uuid[]) as named (id)
  where exists (select from projections where projections.org_id = %(org_id)s)
  union
  select replies.child_id
  from below
  join replies on replies.org_id = %(org_id)s and replies.parent_id = below.id
)
select ask_for_copies(array(select id from below)) as count;

-- name: ask_below_added -> EnqueuedCount
-- Ask for what waited for the messages just added, and for whatever answers that.
with recursive below as (
  select replies.child_id as id
  from pg_temp.incoming as added
  join replies on replies.org_id = %(org_id)s and replies.parent_id = added.id
  where exists (select from projections where projections.org_id = %(org_id)s)
  union
  select replies.child_id
  from below
  join replies on replies.org_id = %(org_id)s and replies.parent_id = below.id
)
select ask_for_copies(array(select id from below)) as count;

-- name: ask_talkers -> EnqueuedCount
-- Ask in graphs for those who wrote messages or answered them: whom they talk to is counted anew.
-- Uses index: replies_to
select ask_for_nodes(
  array(
    select said.author_id
    from (
      select unnest(%(ids)s::uuid[]) as id
      union
      select replies.child_id
      from replies
      where replies.org_id = %(org_id)s and replies.parent_id = any (%(ids)s::uuid[])
    ) as touched
    join messages as said on said.org_id = %(org_id)s and said.id = touched.id
    where exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
) as count;

-- name: ask_talkers_below_added -> EnqueuedCount
-- Ask in graphs for those who answered the messages just added, before these came.
select ask_for_nodes(
  array(
    select said.author_id
    from pg_temp.incoming as added
    join replies on replies.org_id = %(org_id)s and replies.parent_id = added.id
    join messages as said on said.org_id = %(org_id)s and said.id = replies.child_id
    where exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
) as count;

-- name: ask_written_by -> EnqueuedCount
-- Ask for what these participants wrote, and in graphs for themselves.
-- Uses index: messages_by_author
select ask_for_copies(
  array(
    select id
    from messages
    where org_id = %(org_id)s
      and author_id = any (%(participant_ids)s)
      and kind in ('message', 'whisper')
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
) + ask_for_nodes(%(participant_ids)s::uuid[]) as count;

-- name: ask_standing_in -> EnqueuedCount
-- Ask for what stands in some conversations.
-- Uses index: placements_in
select ask_for_copies(
  array(
    select message_id
    from placements
    where org_id = %(org_id)s
      and conversation_id = any (%(conversation_ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s)
  )
) as count;

-- name: ask_naming -> EnqueuedCount
-- Ask in graphs for the memories that name these participants, in whatever role, and for themselves.
-- Uses index: memory_participants_of_participant
select ask_for_nodes(
  %(participant_ids)s::uuid[] || array(
    select memory_id
    from memory_participants
    where org_id = %(org_id)s
      and participant_id = any (%(participant_ids)s)
      and exists (select from projections where projections.org_id = %(org_id)s and projections.target = 'neo4j')
  )
) as count;
