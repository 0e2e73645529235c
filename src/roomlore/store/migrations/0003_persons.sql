-- Participants who are accounts of one person read with one pair of eyes. A merge is a fact beside the
-- participants: it rewrites nothing, and a split takes it away again.

create table merges (
  org_id uuid not null references orgs,
  participant_id uuid not null,
  -- shared by the accounts of one person; it is no participant's id, so that it points to nobody unseen
  person_id uuid not null,
  primary key (org_id, participant_id),
  foreign key (org_id, participant_id) references participants (org_id, id),
  -- the author of holes is nobody's account
  check (participant_id <> org_id)
);

create index merges_of_person on merges (org_id, person_id);

-- The name that everybody who knows somebody may see comes from lists of members, which are no message's secret,
-- or else from the oldest message, whichever arrives first.
alter table participants add column first_named_at timestamptz not null default 'infinity';
update participants
set first_name = oldest.author_name, first_named_at = oldest.sent_at
from (
  select distinct on (org_id, author_id) org_id, author_id, author_name, sent_at
  from messages
  order by org_id, author_id, sent_at, author_name collate "C"
) as oldest
where oldest.org_id = participants.org_id and oldest.author_id = participants.id;
alter table participants alter column first_named_at drop default;

-- Which conversation a message is in is no property of what was said: it is kept beside the messages.
drop view timeline;
drop view readable_messages;
alter table messages drop column conversation_id;

-- A message that was erased leaves a hole: a place in the room without author, words or name.
alter table messages add column erased_at timestamptz;
-- the author of holes is the participant whose id is the org's own
alter table messages add check (
  erased_at is null or (redacted_at is not null and author_id = org_id and author_name = '')
);

-- what comes in again is held against holes
create index messages_holes on messages (org_id, room_id, external_id) where erased_at is not null;

---------------------------------------------------------------------------------------------------
-- Who is reading

-- As before; and nobody reads as the author of holes, who would see every hole in every room.
create or replace function viewer_id() returns uuid
  language sql stable parallel safe
  return nullif(
    nullif(nullif(current_setting('roomlore.viewer', true), ''), 'operator')::uuid,
    current_org()
  );

-- The viewer and every other account of the same person; empty for the operator and for nobody.
create function own_ids() returns uuid[]
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return case
    when viewer_id() is null then '{}'::uuid[]
    else array(
      select viewer_id()
      union
      select other.participant_id
      from merges as mine
      join merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
      where mine.org_id = current_org() and mine.participant_id = viewer_id()
    )
  end;

-- A person counts as an agent when every account of it does.
create or replace function viewer_is_agent() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return coalesce(
    (select bool_and(kind = 'agent') from participants where org_id = current_org() and id = any (own_ids())),
    false
  );

-- What the viewer's own rows say. Views and not functions, so that they are planned with the query that meets
-- them, as one look into an index, where a function makes its whole set anew for every statement. They read as
-- the owner, so that one table's policy can look at another without that table's policy asking back.

create view open_rooms_of_viewer with (security_barrier = true) as
select rooms.id as room_id
from rooms
where rooms.org_id = (select current_org())
  and rooms.visibility = 'open'
  -- a single value, which is looked up once
  and (select true from participants where participants.org_id = current_org() and participants.id = viewer_id());

create view stays_of_viewer with (security_barrier = true) as
select memberships.room_id, memberships.joined_at, memberships.left_at
from memberships
where memberships.org_id = (select current_org()) and memberships.participant_id = any ((select own_ids())::uuid[]);

create view addressed_to_viewer with (security_barrier = true) as
select message_audience.message_id
from message_audience
where message_audience.org_id = (select current_org())
  and message_audience.participant_id = any ((select own_ids())::uuid[]);

grant select on open_rooms_of_viewer, stays_of_viewer, addressed_to_viewer to roomlore_app;

create or replace function witnessed(room uuid, from_at timestamptz, until_at timestamptz) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
      select 1
      from memberships
      where org_id = current_org()
        and room_id = room
        and participant_id = any (own_ids())
        and joined_at < coalesce(until_at, 'infinity')
        and from_at < coalesce(left_at, 'infinity')
    );

---------------------------------------------------------------------------------------------------
-- Who may see what

-- The rule for messages, stated once: as the policy, and as the view that candidate search reads. The likeliest
-- reason comes first, and none is looked for where an earlier one holds.
do $$
declare
  rule constant text := $rule$
    org_id = (select roomlore.current_org())
    and (
      (select roomlore.viewer_is_operator())
      or (kind in ('message', 'system') or kind = 'context_injection' and (select roomlore.viewer_is_agent()))
        and (
          exists (select 1 from roomlore.open_rooms_of_viewer as open where open.room_id = messages.room_id)
          or exists (
            select 1
            from roomlore.stays_of_viewer as stay
            where stay.room_id = messages.room_id
              and stay.joined_at <= messages.sent_at
              and (stay.left_at is null or messages.sent_at < stay.left_at)
          )
        )
      or kind in ('whisper', 'context_injection')
        -- A single value and not an existence, which might be answered by reading all that is addressed to the viewer.
        and (
          select true
          from roomlore.addressed_to_viewer as addressed
          where addressed.message_id = messages.id
          limit 1
        )
      or author_id = any ((select roomlore.own_ids())::uuid[])
    )
  $rule$;
begin
  drop policy read on messages;
  execute format('create policy read on messages for select to roomlore_app using (%s)', rule);
  execute format('create view readable_messages as select * from messages where %s', rule);
end $$;

-- Both ends are asked at once, under the policy of messages. An edge still waiting for its parent is nobody's:
-- its vanishing would tell that an invisible parent came.
create index replies_from on replies (org_id, child_id);
drop policy read on replies;
create policy read on replies for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or parent_id is not null
      and (
        select count(*)
        from messages
        where messages.org_id = replies.org_id and messages.id = any (array[replies.child_id, replies.parent_id])
      ) = 2
  )
);

drop policy read on rooms;
create policy read on rooms for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id in (select room_id from open_rooms_of_viewer)
    or id in (select room_id from stays_of_viewer)
  )
);

create or replace function knows(participant uuid) returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where org_id = current_org()
      and participant_id = participant
      and (
        room_id in (select open_rooms_of_viewer.room_id from open_rooms_of_viewer)
        or witnessed(room_id, joined_at, left_at)
      )
  );

-- Whether the viewer may know of somebody, for the policies of what names participants.
create function can_know(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return participant = any (own_ids())
    or knows(participant)
    or exists (select 1 from readable_messages where author_id = participant);
end $$;

-- Whether the viewer may know of somebody and of another account of the same person.
create function knows_another_account(participant uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return can_know(participant)
    and exists (
      select 1
      from merges as this
      join merges as other on other.org_id = this.org_id and other.person_id = this.person_id
      where this.org_id = current_org()
        and this.participant_id = participant
        and other.participant_id <> participant
        and can_know(other.participant_id)
    );
end $$;

drop policy read on participants;
create policy read on participants for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or id = any ((select own_ids())::uuid[])
    or knows(id)
    or exists (select 1 from messages where messages.org_id = participants.org_id and messages.author_id = participants.id)
  )
);

drop policy read on memberships;
create policy read on memberships for select to roomlore_app using (
  org_id = (select current_org())
  and (
    (select viewer_is_operator())
    or participant_id = any ((select own_ids())::uuid[])
    or room_id in (select open_rooms_of_viewer.room_id from open_rooms_of_viewer)
    or witnessed(room_id, joined_at, left_at)
  )
);

alter table merges enable row level security;
alter table merges force row level security;
grant select, insert, update, delete on merges to roomlore_app;
create policy owner on merges to roomlore_owner using (true) with check (true);
create policy change on merges to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

-- Like an edge between two messages: seen by those who may know of both ends.
create policy read on merges for select to roomlore_app using (
  org_id = (select current_org())
  and ((select viewer_is_operator()) or knows_another_account(participant_id))
);

-- Participants under the names the reader may call them: the operator by the current one, a viewer by that of
-- their newest message the viewer may read, or as at first. A name that is not shown cannot be guessed.
create view known_participants with (security_invoker = true) as
select
  participants.org_id, participants.id, participants.kind,
  case
    when (select viewer_is_operator()) then participants.name
    else coalesce(
      (
        select messages.author_name
        from messages
        where messages.org_id = participants.org_id and messages.author_id = participants.id
        order by messages.sent_at desc, messages.native_order desc, messages.id desc
        limit 1
      ),
      participants.first_name
    )
  end as name
from participants
-- the author of holes is nobody
where participants.id <> participants.org_id;
grant select on known_participants to roomlore_app;

-- As before, with the columns of today.
create view timeline with (security_invoker = true) as
select
  messages.*,
  (
    select answered.parent_id
    from replies as answered
    where answered.org_id = messages.org_id
      and answered.child_id = messages.id
      and answered.method = 'explicit'
  ) as reply_to
from messages;
grant select on timeline to roomlore_app;

drop function open_room_ids(), own_room_ids(), own_stays(), is_addressed(uuid);

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
