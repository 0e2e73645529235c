-- A sensitive conversation stays there for those who had spoken in it, and what rests on it is sensitive no longer than it.

-- Who had spoken in a sensitive conversation when it became so: they were there, whatever is known of memberships. Whoever
-- speaks in it later does not come in by that.
alter table conversations add column spoken_by uuid[] not null default '{}';
-- An operator said how sensitive it is, and only an operator says otherwise.
alter table conversations add column marked_by_operator boolean not null default false;
-- Sensitive only because a conversation that it rests on is.
alter table memories add column is_hushed boolean not null default false;
alter table memories add check (not is_hushed or sensitivity = 'sensitive');

-- Who has spoken in a conversation. Nobody speaks in erased places.
create function speakers(org uuid, conversation uuid) returns uuid[]
  language sql stable set search_path = roomlore, pg_temp
  return array(
    select distinct messages.author_id
    from placements
    join messages on messages.org_id = placements.org_id and messages.id = placements.message_id
    where placements.org_id = org
      and placements.conversation_id = conversation
      and messages.kind in ('message', 'whisper')
      and messages.erased_at is null
    order by messages.author_id
  );

update conversations
set spoken_by = speakers(org_id, id), marked_by_operator = is_marked
where sensitivity = 'sensitive';

-- Whether the viewer may read a message and was there when it was said, however open its room is: as a member of the
-- room, or because they had spoken in its conversation when that became sensitive; and with them everybody who reads at
-- the place, as members. The rule for conversations asks this as well.
create function attended(message uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
begin
  return exists (
    select 1
    from readable_messages as said
    where said.id = message
      and (
        reads_for_place()
        or exists (
          select 1
          from stays_of_viewer as stay
          where stay.room_id = said.room_id
            and stay.joined_at <= said.sent_at
            and (stay.left_at is null or said.sent_at < stay.left_at)
        )
        or exists (
          select 1
          from placements
          join conversations
            on conversations.org_id = placements.org_id and conversations.id = placements.conversation_id
          where placements.org_id = current_org()
            and placements.message_id = said.id
            and conversations.sensitivity = 'sensitive'
            and conversations.spoken_by && own_ids()
        )
      )
      and (
        place_id() is null
        or (place_spans())[array_position(place_rooms(), said.room_id)] @> said.sent_at
      )
  );
end $$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;

-- The words by which erased persons were called, as digests only, so that nothing that is derived says them again.
create table erased_names (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

alter table erased_names enable row level security;
alter table erased_names force row level security;
grant select, insert on erased_names to roomlore_app;
create policy owner on erased_names to roomlore_owner using (true) with check (true);
create policy change on erased_names to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));
