-- What is to be written to copies in other servers once more, or removed from them.

-- name: ask -> Asked
-- Ask for messages to be written to every copy.
select ask_for_copies(%(ids)s::uuid[]) as count;

-- name: ask_nodes -> Asked
-- Ask for what only graphs hold.
select ask_for_nodes(%(ids)s::uuid[]) as count;

-- name: ask_in -> Asked
-- Ask for subjects to be written to the copies of one target.
select ask_for_copies_in(array[%(target)s::text], %(ids)s::uuid[]) as count;

-- name: ask_added -> Asked
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

-- name: ask_below -> Asked
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

-- name: ask_below_added -> Asked
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

-- name: ask_talkers -> Asked
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

-- name: ask_talkers_below_added -> Asked
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

-- name: ask_written_by -> Asked
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

-- name: ask_standing_in -> Asked
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

-- name: ask_naming -> Asked
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
