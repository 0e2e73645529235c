-- What was said last in a scope, as far as the viewer may read it: from each author or each room the newest, of these
-- the newest again, so that no more is read than is wanted.

-- name: newest_by_authors -> Listed
-- The newest messages of some authors, or of all who are of a kind by what a message says, as in a search.
-- Uses index: messages_by_author
select said.id as message_id
from (
  select named.id from unnest(%(author_ids)s::uuid[]) as named (id)
  union
  select participants.id
  from participants
  where participants.org_id = %(org_id)s
    and %(author_ids)s::uuid[] is null
) as author
cross join lateral (
  select messages.id, messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s
    and messages.author_id = author.id
    and (%(author_kinds)s::text[] is null or messages.author_kind = any (%(author_kinds)s::text[]))
    and (%(room_ids)s::uuid[] is null or messages.room_id = any (%(room_ids)s::uuid[]))
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as bounds of the index, also in a plan made for any time
    and messages.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and messages.sent_at < coalesce(%(until)s::timestamptz, 'infinity')
    and (
      %(last_id)s::uuid is null
      or (messages.sent_at, messages.native_order, messages.id)
        <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
    )
    and (
      %(conversation_ids)s::uuid[] is null or conversation_of(messages.id) = any (%(conversation_ids)s::uuid[])
    )
    and (
      %(answered)s::boolean is null
      or %(answered)s::boolean = (
        (
          select answer.id
          from exchange_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- said by then
            and (
              %(last_id)s::uuid is null
              or (answer.sent_at, answer.native_order, answer.id)
                <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.native_order desc, messages.id desc
  limit %(limit)s
) as said
order by said.sent_at desc, said.native_order desc, said.id desc
limit %(limit)s;

-- name: newest_in_rooms -> Listed
-- The newest messages of some rooms, or of all that the viewer may see.
-- Uses index: messages_in_order
select said.id as message_id
from rooms
cross join lateral (
  select messages.id, messages.sent_at, messages.native_order
  from messages
  where messages.org_id = %(org_id)s
    and messages.room_id = rooms.id
    and messages.kind in ('message', 'whisper')
    and messages.redacted_at is null
    -- as bounds of the index, also in a plan made for any time
    and messages.sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
    and messages.sent_at < coalesce(%(until)s::timestamptz, 'infinity')
    and (
      %(last_id)s::uuid is null
      or (messages.sent_at, messages.native_order, messages.id)
        <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
    )
    and (
      %(conversation_ids)s::uuid[] is null or conversation_of(messages.id) = any (%(conversation_ids)s::uuid[])
    )
    and (
      %(answered)s::boolean is null
      or %(answered)s::boolean = (
        (
          select answer.id
          from exchange_edges as edge
          join messages as answer on answer.org_id = edge.org_id and answer.id = edge.child_id
          where edge.org_id = messages.org_id
            and edge.parent_id = messages.id
            -- said by then
            and (
              %(last_id)s::uuid is null
              or (answer.sent_at, answer.native_order, answer.id)
                <= (%(last_at)s::timestamptz, %(last_order)s::bigint, %(last_id)s::uuid)
            )
          limit 1
        ) is not null
      )
    )
  order by messages.sent_at desc, messages.native_order desc, messages.id desc
  limit %(limit)s
) as said
where rooms.org_id = %(org_id)s and (%(room_ids)s::uuid[] is null or rooms.id = any (%(room_ids)s::uuid[]))
order by said.sent_at desc, said.native_order desc, said.id desc
limit %(limit)s;
