-- What has changed, for those who are told of it as it happens, and for whatever is brought up to date from here: a row
-- for each transaction, room and kind, written in the very transaction of the change.

-- An id that sorts by time (RFC 9562, version 7), from the server's clock.
create function change_id() returns uuid
  language sql volatile parallel safe
  return encode(
    set_bit(
      set_bit(
        overlay(
          uuid_send(gen_random_uuid())
          placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
          from 1 for 6
        ),
        52, 1
      ),
      53, 1
    ),
    'hex'
  )::uuid;

-- Read in the order (xid, id), and only where xid is below every transaction that still runs: whoever has read so far has
-- missed nothing that a slower transaction commits later.
create table changes (
  org_id uuid not null references orgs,
  id uuid not null default change_id(),
  xid xid8 not null default pg_current_xact_id(),
  -- null: of a memory that rests on nothing that was said
  room_id uuid,
  kind text not null check (
    kind in (
      'message.added', 'message.revised', 'message.redacted', 'message.erased', 'memory.kept', 'memory.changed',
      'conversation.changed'
    )
  ),
  -- Messages, memories or conversations, by kind. Ids only: who may see which is asked when they are told, of the rows
  -- themselves.
  subject_ids uuid[] not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (org_id, id),
  foreign key (org_id, room_id) references rooms (org_id, id)
);

create index changes_in_order on changes (org_id, xid, id);
-- what of them is to be gone
create index changes_of_room on changes (org_id, kind, room_id);

alter table changes enable row level security;
alter table changes force row level security;
grant select, insert, update, delete on changes to roomlore_app;
create policy owner on changes to roomlore_owner using (true) with check (true);
-- No viewer reads here: that there is a row would tell.
create policy change on changes to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
