-- Messages that could not be listened to for requests of privacy in time wait in the queue like all other work. And what
-- rests on the beginning of a room is bound to where it is posted, like everything else that is read there. Operators are
-- told what requests leave out there.

alter table work drop constraint work_stage_check;
alter table work
  add constraint work_stage_check
  check (stage in ('embed', 'untangle', 'interact', 'inject', 'qdrant', 'neo4j', 'reembed', 'listen'));

-- Whether nothing was said in a room before the viewer could hear it, and before all who read at the place could: why a
-- conversation was opened, and how long a silence is long there, rests on what was said before, and is for those who
-- heard that.
create or replace function heard_from_the_first(room uuid) returns boolean
  language plpgsql stable parallel safe security definer set search_path = roomlore, pg_temp
as $$
declare
  first_at constant timestamptz := coalesce(
    (
      select messages.sent_at
      from messages
      where messages.org_id = current_org() and messages.room_id = room
      order by messages.sent_at
      limit 1
    ),
    'infinity'
  );
begin
  return viewer_is_operator()
    or exists (select 1 from open_rooms_of_viewer where open_rooms_of_viewer.room_id = room)
    or (
      reads_for_place()
      or exists (
        select 1
        from stays_of_viewer as stay
        where stay.room_id = room and stay.left_at is null and stay.joined_at <= first_at
      )
    )
    and (
      place_id() is null
      or coalesce(
        (place_spans())[array_position(place_rooms(), room)] @> tstzrange(first_at, null), false
      )
    );
end $$;

-- As before; an operator who reads for a place is told, too, what was left out there.
create or replace view recallable_messages as
select said.*
from readable_messages as said
where not (select exists (select 1 from withheld where withheld.org_id = current_org()))
  or (select reads_for_org() and not recalling())
  -- A single value and not an existence, which might be answered by reading all that is withheld.
  or (select true from withheld_from_viewer as kept where kept.message_id = said.id limit 1) is null;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
