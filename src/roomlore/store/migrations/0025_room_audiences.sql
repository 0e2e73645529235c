-- Who decides who may read a room, what it is called, and which server or workspace it belongs to.

alter table rooms
  -- the server, workspace or network that the platform names
  add column workspace text not null default '',
  -- whether its platform ever said that it is for its members; saying it again is no news
  add column is_stated_closed boolean not null default false,
  -- whether it was said since to be open: that it is for its members then is news again
  add column is_stated_open boolean not null default false,
  -- whether an operator named it: its platform then names it no more
  add column is_named boolean not null default false;

update rooms set is_stated_closed = true where visibility = 'members';
update rooms set visibility = 'members', is_stated_closed = true where kind in ('dm', 'group_dm');
alter table rooms
  add constraint rooms_direct_closed check (kind not in ('dm', 'group_dm') or visibility = 'members');

-- A presence that an operator stated: no list of the platform changes it.
alter table memberships add column by_operator boolean not null default false;

-- Whether an operator said of somebody, by whatever account of theirs, that they are or are not a member of a room.
create function operator_decided(room uuid, participant uuid) returns boolean
  language sql stable parallel safe set search_path = roomlore, pg_temp
  return exists (
    select 1
    from memberships
    where memberships.org_id = current_org()
      and memberships.room_id = room
      and memberships.by_operator
      and memberships.participant_id in (
        select participant
        union all
        select other.participant_id
        from merges as mine
        join merges as other on other.org_id = mine.org_id and other.person_id = mine.person_id
        where mine.org_id = current_org() and mine.participant_id = participant
      )
  );

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
