-- Erasing: what goes with messages and with persons. Messages come in portions of ids.

-- name: messages_in_range -> MessageToErase
-- Some messages of a room that were sent in a time, oldest first.
-- Uses index: messages_in_order
select id, room_id, author_id
from messages
where org_id = %(org_id)s
  and room_id = %(room_id)s
  and sent_at >= coalesce(%(since)s::timestamptz, '-infinity')
  and sent_at < %(until)s
  and (%(with_holes)s or erased_at is null)
order by sent_at, native_order, id
limit %(limit)s;

-- name: messages_by -> MessageToErase
-- Some messages that these participants wrote.
-- Uses index: messages_by_author
select id, room_id, author_id
from messages
where org_id = %(org_id)s and author_id = any (%(participant_ids)s)
order by author_id, sent_at
limit %(limit)s;

-- name: spoken -> MessageRef
-- Those of these messages that stand in conversations: neither notices nor injected, and not erased before.
select id
from messages
where org_id = %(org_id)s
  and id = any (%(message_ids)s)
  and kind in ('message', 'whisper')
  and erased_at is null;

-- name: drop_work
-- Drop work on messages, and on answers to them; that on their rooms stays.
-- Uses index: work_by_trigger
delete from work
where org_id = %(org_id)s
  and (subject_id = any (%(message_ids)s) or trigger_id = any (%(message_ids)s))
  -- copies in other servers are still to go
  and stage not in ('qdrant', 'neo4j');

-- name: drop_audiences
-- Remove whom messages are addressed to.
delete from message_audience where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: memories_resting_on -> MemoryRef
-- Memories with one of these messages among their sources.
-- Uses index: memory_sources_of_message
select distinct memory_id as id
from memory_sources
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: hand_over_superseded -> MemoryRef
-- What memories took the place of is superseded by the next that stays, or stands again.
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
    -- in a circle of which nothing else is left
    and kept.successor <> memories.id
)
where memories.org_id = %(org_id)s and memories.id in (select kept.id from kept)
returning memories.id;

-- name: drop_memory_sources
-- Remove what memories rest on.
delete from memory_sources where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);

-- name: drop_memory_tags
-- Remove the tags of memories.
delete from memory_tags where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);

-- name: drop_partings
-- Remove what memories stand beside, and what is only left of these memories in what others stand beside.
delete from partings
where org_id = %(org_id)s
  and (
    memory_id = any (%(memory_ids)s)
    or (
      digest in (select memories.digest from memories where memories.org_id = %(org_id)s and memories.id = any (%(memory_ids)s))
      and not exists (
        select 1
        from memories
        where memories.org_id = %(org_id)s
          and memories.digest = partings.digest
          and not memories.id = any (%(memory_ids)s)
      )
    )
  );

-- name: drop_memory_participants
-- Remove who memories are of.
delete from memory_participants where org_id = %(org_id)s and memory_id = any (%(memory_ids)s);

-- name: drop_memories
-- Remove memories.
delete from memories where org_id = %(org_id)s and id = any (%(memory_ids)s);

-- name: conversations_of -> ConversationRef
-- The conversations that these messages are in.
select distinct conversation_id as id
from placements
where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: losing_aloud -> ConversationRef
-- The conversations in which some of these messages are that were no whispers.
select distinct placements.conversation_id as id
from placements
join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
where placements.org_id = %(org_id)s and placements.message_id = any (%(message_ids)s) and messages.kind <> 'whisper';

-- name: beside -> MessageRef
-- Of each of these conversations one message that stays, the nearest to those that go: once that is gone through
-- again, the conversation gets a label again.
-- Uses index: placements_in
select kept.id
from unnest(%(conversation_ids)s::uuid[]) as losing (id)
cross join lateral (
  select min(gone.sent_at) as at
  from messages as gone
  join placements on placements.org_id = gone.org_id and placements.message_id = gone.id
  where gone.org_id = %(org_id)s and gone.id = any (%(message_ids)s) and placements.conversation_id = losing.id
) as loss
cross join lateral (
  select said.id
  from placements
  join messages as said on said.org_id = placements.org_id and said.id = placements.message_id
  where placements.org_id = %(org_id)s
    and placements.conversation_id = losing.id
    and said.id <> all (%(message_ids)s)
    and said.kind in ('message', 'whisper')
    and said.erased_at is null
  order by abs(extract(epoch from said.sent_at - coalesce(loss.at, 'epoch'))), said.id
  limit 1
) as kept;

-- name: drop_found
-- Remove the edges that were found at either end of messages; what the platform states stays.
delete from replies
where org_id = %(org_id)s
  and (child_id = any (%(message_ids)s) or parent_id = any (%(message_ids)s))
  and method in ('mention', 'inferred');

-- name: drop_placements
-- Take messages out of their conversations.
delete from placements where org_id = %(org_id)s and message_id = any (%(message_ids)s);

-- name: empty_labels
-- Remove what conversations are called, also by a person, and the digest of what a language model was asked about.
update conversations
set label = '', is_named = false, is_titled = false, asked_state = left(asked_state, 0)
where org_id = %(org_id)s and id = any (%(conversation_ids)s) and label <> '';

-- name: drop_empty_conversations
-- Remove those of these conversations that have no message left.
-- Uses index: placements_in
delete from conversations
where org_id = %(org_id)s
  and id = any (%(conversation_ids)s)
  and not exists (
    select 1
    from placements
    where placements.org_id = %(org_id)s and placements.conversation_id = conversations.id
  );

-- name: add_nobody
-- Make the author of holes, whose id is the org's own.
insert into participants (org_id, id, kind, name, named_at, first_name, first_named_at)
values (%(org_id)s, %(org_id)s, 'system', 'erased', '-infinity', 'erased', '-infinity')
on conflict (org_id, id) do nothing;

-- name: make_holes
-- Leave nothing of messages but their places.
update messages
set
  author_id = org_id, author_name = '', author_kind = 'system', body = '', edited_at = null,
  redacted_at = coalesce(redacted_at, %(at)s), erased_at = %(at)s, mentions = null, attachments = null,
  reactions = null, metadata = null, raw = null
where org_id = %(org_id)s and id = any (%(message_ids)s) and erased_at is null;

-- name: part_replies
-- Let replies that stay wait for the message they answer, which goes: as if they had just been said.
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

-- name: drop_replies
-- Remove the edges at either end of messages.
delete from replies
where org_id = %(org_id)s and (child_id = any (%(message_ids)s) or parent_id = any (%(message_ids)s));

-- name: drop_messages
-- Remove messages, place and all.
delete from messages where org_id = %(org_id)s and id = any (%(message_ids)s);

-- name: drop_activity
-- Remove how much these participants wrote in these rooms.
delete from activity
where org_id = %(org_id)s and room_id = any (%(room_ids)s) and participant_id = any (%(participant_ids)s);

-- name: count_activity
-- Count what these participants wrote in these rooms.
-- Uses index: messages_by_author
insert into activity (org_id, room_id, participant_id, message_count, first_at, last_at)
select org_id, room_id, author_id, count(*), min(sent_at), max(sent_at)
from messages
where org_id = %(org_id)s
  and author_id = any (%(participant_ids)s)
  and room_id = any (%(room_ids)s)
  and erased_at is null
group by org_id, room_id, author_id;

-- name: memberships_in -> RowCount
-- How many memberships a room has.
select count(*) as count from memberships where org_id = %(org_id)s and room_id = %(room_id)s;

-- name: accounts_of -> AccountRow
-- The accounts of these participants.
select platform, account_id, persona
from identities
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s)
order by platform, account_id, persona;

-- name: names_of -> NameRow
-- Everything these participants were ever called.
select author_name as name
from messages
where org_id = %(org_id)s and author_id = any (%(participant_ids)s)
union
select name from participants where org_id = %(org_id)s and id = any (%(participant_ids)s)
union
select first_name from participants where org_id = %(org_id)s and id = any (%(participant_ids)s)
union
select persona
from identities
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s) and persona <> '';

-- name: addressed -> MessageRef
-- What was whispered to these participants by others.
select message_id as id
from message_audience
where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_addressed
-- Take participants out of the audiences they are in.
delete from message_audience where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_memberships
-- Remove where participants were.
delete from memberships where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_activity_of
-- Remove how much participants wrote, wherever.
delete from activity where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_merges
-- Remove whose accounts participants are.
delete from merges where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_keys
-- Remove the keys that read with these participants' eyes.
delete from api_keys where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_encounters
-- Forget who met in these conversations.
delete from encounters where org_id = %(org_id)s and conversation_id = any (%(conversation_ids)s);

-- name: drop_encounters_of
-- Remove what agents make of participants, and what these make of others.
-- Uses indexes: encounters_of_agent, encounters_with_participant
delete from encounters
where org_id = %(org_id)s
  and (agent_id = any (%(participant_ids)s) or participant_id = any (%(participant_ids)s));

-- name: drop_identities
-- Remove the accounts of participants.
delete from identities where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: drop_participants
-- Remove participants of whom nothing is left.
delete from participants where org_id = %(org_id)s and id = any (%(participant_ids)s);

-- name: memories_of -> MemoryRef
-- Memories that participants asserted or wrote, that are about them, or that were seen through their eyes.
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

-- name: memories_saying -> MemoryText
-- Memories in which one of these strings occurs, in any case, and whether they involve one of the participants.
select
  memories.id,
  concat_ws(E'\n', memories.title, memories.content, memories.task_id, memories.slot, memories.metadata) as content,
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
          concat_ws(E'\n', memories.title, memories.content, memories.task_id, memories.slot, memories.metadata)
        ),
        lower(wanted.string)
      ) > 0
  );

-- name: drop_spoken
-- Take participants out of those who had spoken in conversations when these became sensitive.
update conversations
set spoken_by = array(
  select spoken.id
  from unnest(conversations.spoken_by) as spoken (id)
  where spoken.id <> all (%(participant_ids)s::uuid[])
)
where org_id = %(org_id)s and spoken_by && %(participant_ids)s::uuid[];

-- name: drop_involved
-- Take participants out of the memories that stay.
delete from memory_participants where org_id = %(org_id)s and participant_id = any (%(participant_ids)s);

-- name: labels_saying -> ConversationLabel
-- Conversations whose label has one of these strings in it, in any case.
select conversations.id, conversations.label
from conversations
where conversations.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(conversations.label), lower(wanted.string)) > 0
  );

-- name: messages_saying -> MessageRef
-- Messages of a platform in which one of these strings occurs, in any case. Texts are searched for the strings
-- themselves, structured fields for how JSON writes them.
select messages.id
from messages
join rooms on rooms.org_id = messages.org_id and rooms.id = messages.room_id
cross join lateral (
  select
    lower(concat_ws(
      E'\n', messages.body,
      (
        select string_agg(revisions.body, E'\n')
        from revisions
        where revisions.org_id = messages.org_id and revisions.message_id = messages.id
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
    from unnest(%(strings)s::text[], %(json_strings)s::text[]) as wanted (string, json_string)
    where strpos(held.texts, lower(wanted.string)) > 0 or strpos(held.fields, lower(wanted.json_string)) > 0
  )
order by messages.id;

-- name: said_by_others -> MessageContents
-- Everything in these messages that may name somebody else.
select
  messages.id, messages.kind, messages.author_name, messages.body, messages.mentions, messages.attachments,
  messages.reactions, messages.metadata, messages.raw,
  array(
    select revisions.written_at
    from revisions
    where revisions.org_id = %(org_id)s and revisions.message_id = messages.id
    order by revisions.written_at
  ) as earlier_at,
  array(
    select revisions.body
    from revisions
    where revisions.org_id = %(org_id)s and revisions.message_id = messages.id
    order by revisions.written_at
  ) as earlier
from messages
where messages.org_id = %(org_id)s and messages.id = any (%(message_ids)s)
order by messages.id;

-- name: rewrite_messages
-- Put scrubbed contents in place of those that named somebody.
update messages
set
  body = scrubbed.body,
  mentions = scrubbed.mentions::jsonb,
  attachments = scrubbed.attachments::jsonb,
  reactions = scrubbed.reactions::jsonb,
  metadata = scrubbed.metadata::jsonb,
  raw = scrubbed.raw::jsonb
from unnest(
  %(id)s::uuid[], %(body)s::text[], %(mentions)s::text[], %(attachments)s::text[], %(reactions)s::text[],
  %(metadata)s::text[], %(raw)s::text[]
) as scrubbed (id, body, mentions, attachments, reactions, metadata, raw)
where messages.org_id = %(org_id)s and messages.id = scrubbed.id;

-- name: rewrite_revisions
-- Put scrubbed texts in place of earlier ones that named somebody.
update revisions
set body = scrubbed.body
from unnest(%(message_id)s::uuid[], %(written_at)s::timestamptz[], %(body)s::text[])
  as scrubbed (message_id, written_at, body)
where revisions.org_id = %(org_id)s
  and revisions.message_id = scrubbed.message_id
  and revisions.written_at = scrubbed.written_at;
