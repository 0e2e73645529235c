-- name: messages_in_range
-- Uses index: messages_in_order
select id, room_id, author_id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and sent_at < %(until)s
  and (%(with_tombstones)s or erased_at is null)
order by sent_at, sequence, id
limit %(limit)s;

-- name: messages_by
-- Uses index: messages_by_author
select id, room_id, author_id
from messages
where org_id = %(org_id)s and author_id = any (%(participant_ids)s)
order by author_id, sent_at
limit %(limit)s;

-- name: assigned_ids
select id
from messages
where org_id = %(org_id)s
  and id = any (%(message_ids)s)
  and kind in ('message', 'whisper')
  and erased_at is null;

-- name: drop_work
-- Uses index: work_by_trigger
delete from work_queue
where org_id = %(org_id)s
  and (subject_id = any (%(message_ids)s) or trigger_id = any (%(message_ids)s))
  -- kept, because projections in other servers still have to be updated
  and queue not in ('qdrant', 'neo4j');

-- name: drop_audiences
delete from message_audience where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: memories_from
-- Uses index: memory_sources_of_message
select distinct memory_id
from memory_sources
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: hand_over_superseded
-- Uses index: memories_superseded
with recursive kept (id, successor) as (
  select memories.id, memories.superseded_by
  from memories
  where memories.org_id = %(org_id)s
    and memories.superseded_by = any (%(memory_ids)s)
    and not memories.id = any (%(memory_ids)s)
  union
  select kept.id, memories.superseded_by
  from kept
  join memories on memories.org_id = %(org_id)s and memories.id = kept.successor
  where kept.successor = any (%(memory_ids)s)
)
update memories
set superseded_by = (
  select kept.successor
  from kept
  where kept.id = memories.id
    and not kept.successor = any (%(memory_ids)s)
    -- in a cycle of successors a memory could become its own successor
    and kept.successor <> memories.id
)
where memories.org_id = %(org_id)s and memories.id in (select kept.id from kept)
returning memories.id;

-- name: drop_memories
with dropped_sources as (
  delete from memory_sources where org_id = %(org_id)s and memory_id = any (%(memory_ids)s)
),
dropped_tags as (
  delete from memory_tags where org_id = %(org_id)s and memory_id = any (%(memory_ids)s)
),
dropped_participants as (
  delete from memory_participants where org_id = %(org_id)s and memory_id = any (%(memory_ids)s)
),
-- the overrides of other memories also go, if they are about a text that only the erased memories have
dropped_overrides as (
  delete from supersession_overrides
  where org_id = %(org_id)s
    and (
      memory_id = any (%(memory_ids)s)
      or (
        digest in (
          select memories.digest from memories where memories.org_id = %(org_id)s and memories.id = any (%(memory_ids)s)
        )
        and not exists (
          select 1
          from memories
          where memories.org_id = %(org_id)s
            and memories.digest = supersession_overrides.digest
            and not memories.id = any (%(memory_ids)s)
        )
      )
    )
)
delete from memories where org_id = %(org_id)s and id = any (%(memory_ids)s);

-- name: conversations_of
select conversation_messages.conversation_id, bool_or(messages.kind <> 'whisper') as is_aloud
from conversation_messages
join messages on messages.org_id = conversation_messages.org_id and messages.id = conversation_messages.message_id
where conversation_messages.org_id = %(org_id)s and conversation_messages.message_id = any (%(message_ids)s)
group by conversation_messages.conversation_id;

-- name: nearest_remaining
-- Uses index: conversation_messages_in
select kept.id
from unnest(%(conversation_ids)s::uuid[]) as losing (id)
cross join lateral (
  select min(gone.sent_at) as at
  from messages as gone
  join conversation_messages on conversation_messages.org_id = gone.org_id and conversation_messages.message_id = gone.id
  where gone.org_id = %(org_id)s and gone.id = any (%(message_ids)s) and conversation_messages.conversation_id = losing.id
) as loss
cross join lateral (
  select said.id
  from conversation_messages
  join messages as said on said.org_id = conversation_messages.org_id and said.id = conversation_messages.message_id
  where conversation_messages.org_id = %(org_id)s
    and conversation_messages.conversation_id = losing.id
    and said.id <> all (%(message_ids)s)
    and said.kind in ('message', 'whisper')
    and said.erased_at is null
  order by abs(extract(epoch from said.sent_at - coalesce(loss.at, 'epoch'))), said.id
  limit 1
) as kept;

-- name: drop_inferred
delete from replies
where org_id = %(org_id)s
  and (child_id = any (%(message_ids)s) or parent_id = any (%(message_ids)s))
  and method in ('mention', 'inferred');

-- name: drop_assignments
delete from conversation_messages where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: empty_labels
update conversations
set label = '', is_named = false, is_titled = false, title_state = left(title_state, 0)
where org_id = %(org_id)s and id = any (%(conversation_ids)s) and label <> '';

-- name: make_tombstones
-- The author of tombstones has the id of the org.
with author as (
  insert into participants (org_id, id, kind, name, named_at, first_name, first_named_at)
  values (%(org_id)s, %(org_id)s, 'system', 'erased', '-infinity', 'erased', '-infinity')
  on conflict (org_id, id) do nothing
)
update messages
set
  author_id = org_id, author_name = '', author_kind = 'system', body = '', edited_at = null,
  redacted_at = coalesce(redacted_at, %(at)s), erased_at = %(at)s, mentions = null, attachments = null,
  reactions = null, metadata = null, raw = null, asks = false
where org_id = %(org_id)s and id = any (%(message_ids)s) and erased_at is null;

-- name: detach_replies
update replies
set parent_id = null
from messages as child
where replies.org_id = %(org_id)s
  and replies.parent_id = any (%(message_ids)s)
  and replies.method in ('explicit', 'thread')
  and replies.parent_external_id is not null
  and child.org_id = %(org_id)s
  and child.id = replies.child_id
  and not (child.sent_at >= coalesce(%(since)s::timestamptz, '-infinity') and child.sent_at < %(until)s);

-- name: drop_messages
with dropped_replies as (
  delete from replies
  where org_id = %(org_id)s and (child_id = any (%(message_ids)s) or parent_id = any (%(message_ids)s))
  returning 1
),
dropped_messages as (
  delete from messages where org_id = %(org_id)s and id = any (%(message_ids)s)
  returning 1
)
select 'replies' as kind, count(*) from dropped_replies
union all
select 'messages', count(*) from dropped_messages;

-- name: drop_activity
delete from room_activity
where org_id = %(org_id)s and room_id = any (%(room_ids)s) and participant_id = any (%(participant_ids)s);

-- name: count_activity
-- Uses index: messages_by_author
insert into room_activity (org_id, room_id, participant_id, message_count, first_at, last_at)
select org_id, room_id, author_id, count(*), min(sent_at), max(sent_at)
from messages
where org_id = %(org_id)s
  and author_id = any (%(participant_ids)s)
  and room_id = any (%(room_ids)s)
  and erased_at is null
group by org_id, room_id, author_id;

-- name: memberships_in
select count(*) as count from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: accounts_of
select platform, account_id, persona
from platform_accounts
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
order by platform, account_id, persona;

-- name: names_of
select called.name
from (
  select author_name as name
  from messages
  where org_id = %(org_id)s and author_id = any (%(participant_ids)s)
  union
  select unnest(array[name, first_name]) from participants where org_id = %(org_id)s and id = any (%(participant_ids)s)
  union
  select persona from platform_accounts where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
) as called
where called.name <> '';

-- name: whispers_to
select message_id
from message_audience
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: ends_of
select room_id, left_at
from memberships
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s) and left_at < 'infinity';

-- name: drop_interactions
delete from interactions where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: drop_person
with dropped_audiences as (
  delete from message_audience where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_memberships as (
  delete from memberships where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_activity as (
  delete from room_activity where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_merges as (
  delete from participant_merges where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_keys as (
  delete from api_keys where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_encounters as (
  delete from interactions
  where org_id = %(org_id)s and (agent_id = any (%(participant_ids)s) or participant_id = any (%(participant_ids)s))
  returning 1
),
dropped_trust as (
  delete from stated_trust
  where org_id = %(org_id)s
    and (
      agent_id = any (%(participant_ids)s) or participant_id = any (%(participant_ids)s) or stated_by = any (%(participant_ids)s)
    )
  returning 1
),
dropped_links as (
  delete from memory_participants where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_speakers as (
  update conversations
  set prior_authors = array(
    select spoken.id
    from unnest(conversations.prior_authors) as spoken (id)
    where spoken.id <> all (%(participant_ids)s::uuid[])
  )
  where org_id = %(org_id)s and prior_authors && %(participant_ids)s::uuid[]
  returning 1
),
dropped_accounts as (
  delete from platform_accounts where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
  returning 1
),
dropped_participants as (
  delete from participants where org_id = %(org_id)s and id = any (%(participant_ids)s)
  returning 1
)
select 'audiences' as kind, count(*) from dropped_audiences
union all
select 'memberships', count(*) from dropped_memberships
union all
select 'activity', count(*) from dropped_activity
union all
select 'merges', count(*) from dropped_merges
union all
select 'keys', count(*) from dropped_keys
union all
select 'interactions', count(*) from dropped_encounters
union all
select 'stated trust', count(*) from dropped_trust
union all
select 'memory links', count(*) from dropped_links
union all
select 'speakers', count(*) from dropped_speakers
union all
select 'accounts', count(*) from dropped_accounts
union all
select 'participants', count(*) from dropped_participants;

-- name: memories_of
select memories.id
from memories
where memories.org_id = %(org_id)s
  and (
    memories.asserted_by = any (%(participant_ids)s)
    or exists (
      select 1
      from memory_participants as linked
      where linked.org_id = %(org_id)s
        and linked.memory_id = memories.id
        and linked.participant_id = any (%(participant_ids)s)
        and linked.role in ('author', 'subject', 'perspective')
    )
  );

-- name: memories_containing
select
  memories.id,
  concat_ws(E'\n', memories.title, memories.content, memories.task_id, memories.metadata) as content,
  exists (
    select 1
    from memory_participants as linked
    where linked.org_id = %(org_id)s
      and linked.memory_id = memories.id
      and linked.participant_id = any (%(participant_ids)s)
  ) as is_involved
from memories
where memories.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where
      strpos(
        lower(
          concat_ws(E'\n', memories.title, memories.content, memories.task_id, memories.metadata)
        ),
        lower(wanted.string)
      ) > 0
  );

-- name: labels_containing
select conversations.id, conversations.label
from conversations
where conversations.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(conversations.label), lower(wanted.string)) > 0
  );

-- name: tags_containing
select memory_tags.memory_id as id, memory_tags.tag
from memory_tags
where memory_tags.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(memory_tags.tag), lower(wanted.string)) > 0
  );

-- name: drop_tags
delete from memory_tags
using unnest(%(id)s::uuid[], %(tag)s::text[]) as naming (memory_id, tag)
where memory_tags.org_id = %(org_id)s
  and memory_tags.memory_id = naming.memory_id
  and memory_tags.tag = naming.tag;

-- name: rooms_containing
select rooms.id, rooms.kind, rooms.name, rooms.topic
from rooms
where rooms.org_id = %(org_id)s
  and rooms.platform = %(platform)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(concat_ws(E'\n', rooms.name, rooms.topic)), lower(wanted.string)) > 0
  );

-- name: rename_rooms
update rooms
set name = told.name, topic = told.topic
from unnest(%(id)s::uuid[], %(name)s::text[], %(topic)s::text[]) as told (id, name, topic)
where rooms.org_id = %(org_id)s and rooms.id = told.id;

-- name: keys_containing
select api_keys.name
from api_keys
where api_keys.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(api_keys.name), lower(wanted.string)) > 0
  );

-- name: messages_containing
-- Structured fields contain a string as JSON writes it.
select messages.id
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
cross join lateral (
  select
    lower(concat_ws(
      E'\n', messages.body,
      (
        select string_agg(message_revisions.body, E'\n')
        from message_revisions
        where message_revisions.org_id = messages.org_id and message_revisions.message_id = messages.id
      )
    )) as texts,
    lower(concat_ws(
      E'\n', messages.mentions::text, messages.attachments::text, messages.reactions::text,
      messages.metadata::text, messages.raw::text
    )) as fields
  offset 0
) as held
where messages.org_id = %(org_id)s
  and rooms.platform = %(platform)s
  and messages.redacted_at is null
  and exists (
    select 1
    from unnest(%(strings)s::text[]) as wanted (string)
    cross join lateral (select to_json(wanted.string)::text as quoted) as written
    where strpos(held.texts, lower(wanted.string)) > 0 or strpos(held.fields, lower(substr(written.quoted, 2, length(written.quoted) - 2))) > 0
  )
order by messages.id;

-- name: message_contents
select
  messages.id, messages.kind, messages.author_name, messages.body, messages.mentions, messages.attachments,
  messages.reactions, messages.metadata, messages.raw,
  array(
    select message_revisions.written_at
    from message_revisions
    where message_revisions.org_id = %(org_id)s and message_revisions.message_id = messages.id
    order by message_revisions.written_at
  ) as earlier_at,
  array(
    select message_revisions.body
    from message_revisions
    where message_revisions.org_id = %(org_id)s and message_revisions.message_id = messages.id
    order by message_revisions.written_at
  ) as earlier
from messages
where messages.org_id = %(org_id)s and messages.id = any (%(message_ids)s)
order by messages.id;

-- name: put_contents
update messages
set
  body = scrubbed.body,
  mentions = scrubbed.mentions::jsonb,
  attachments = scrubbed.attachments::jsonb,
  reactions = scrubbed.reactions::jsonb,
  metadata = scrubbed.metadata::jsonb,
  raw = scrubbed.raw::jsonb
from unnest(
  %(contents_1)s::uuid[], %(contents_2)s::text[], %(contents_3)s::text[], %(contents_4)s::text[],
  %(contents_5)s::text[], %(contents_6)s::text[], %(contents_7)s::text[]
) as scrubbed (id, body, mentions, attachments, reactions, metadata, raw)
where messages.org_id = %(org_id)s and messages.id = scrubbed.id;

-- name: put_revisions
update message_revisions
set body = scrubbed.body
from unnest(%(revisions_1)s::uuid[], %(revisions_2)s::timestamptz[], %(revisions_3)s::text[])
  as scrubbed (message_id, written_at, body)
where message_revisions.org_id = %(org_id)s
  and message_revisions.message_id = scrubbed.message_id
  and message_revisions.written_at = scrubbed.written_at;
