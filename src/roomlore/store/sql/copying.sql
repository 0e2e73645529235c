-- What is to be written to copies in other servers once more, or removed from them.

-- name: ask -> Asked
-- Ask for subjects to be written to every copy.
select ask_for_copies(%(ids)s::uuid[]) as count;

-- name: ask_added -> Asked
-- Ask for the messages just added.
select ask_for_copies(
  array(
    select id from pg_temp.incoming
    where kind in ('message', 'whisper') and exists (select from projections where org_id = %(org_id)s)
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

-- name: ask_written_by -> Asked
-- Ask for what these participants wrote.
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
) as count;

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
