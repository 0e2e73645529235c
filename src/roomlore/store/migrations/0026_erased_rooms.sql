-- Rooms that were erased whole. Only a digest of how the platform names one is kept, so that nothing of it is taken in
-- again.
create table erased_rooms (
  org_id uuid not null references orgs,
  digest bytea not null check (length(digest) = 32),
  erased_at timestamptz not null,
  primary key (org_id, digest)
);

alter table erased_rooms enable row level security;
alter table erased_rooms force row level security;
create policy owner on erased_rooms to roomlore_owner using (true) with check (true);
create policy change on erased_rooms to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));
grant select, insert, delete on erased_rooms to roomlore_app;

alter table receipts
  drop constraint receipts_kind_check,
  add constraint receipts_kind_check check (kind in ('message', 'range', 'person', 'expiry', 'room'));
