-- Requests that are heard with doubt wait for a person: until then they hide nothing.

alter table wishes drop constraint wishes_status_check;
alter table wishes drop constraint wishes_check;
alter table wishes rename column undone_at to decided_at;
alter table wishes rename column undone_by to decided_by;
update wishes set status = 'dismissed' where status = 'undone';
-- Why a person is asked first; empty: it was put plainly.
alter table wishes add column doubt text not null default '';
alter table wishes add constraint wishes_status_check check (status in ('proposed', 'active', 'dismissed'));
-- Only people dismiss.
alter table wishes add constraint wishes_dismissed_check check (status <> 'dismissed' or decided_at is not null);

-- What an org does with the requests it hears: carries the plain ones out, proposes all of them, or hears none.
alter table orgs add column wish_mode text not null default 'on' check (wish_mode in ('on', 'propose', 'off'));
grant update (wish_mode) on orgs to roomlore_app;

-- What requests keep from the viewer of what they could read otherwise. Of anything else it tells nothing: that a
-- message is withheld tells that there is one.
create or replace view withheld_from_viewer with (security_barrier = true) as
select withheld.message_id
from withheld
where withheld.org_id = (select current_org())
  and case
    when withheld.from_ids is null then not withheld.spared_ids && (select own_ids())::uuid[]
    else withheld.from_ids && (select own_ids())::uuid[]
  end
  and (select said.id from readable_messages as said where said.id = withheld.message_id limit 1) is not null;

-- What the viewer may read and recall may show them. Whether anything is withheld at all is asked once. An operator who
-- does not recall is shown all of it: to be told what was left out.
create or replace view recallable_messages as
select said.*
from readable_messages as said
where not (select exists (select 1 from withheld where withheld.org_id = current_org()))
  or (select viewer_is_operator() and not recalling())
  -- A single value and not an existence, which might be answered by reading all that is withheld.
  or (select true from withheld_from_viewer as kept where kept.message_id = said.id limit 1) is null;

-- As before. A function, since it is asked about only where anything is withheld: within the rule it would be planned for
-- every read.
drop policy recall on messages;
create policy recall on messages as restrictive for select to roomlore_app using (
  org_id = (select current_org())
  and (not (select recalling()) or not (select org_withholds()) or not is_withheld(messages.id))
);

drop function anything_withheld();

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
