-- Which workers were there lately, so that whoever runs an org sees that its work is being done, or by nobody.

-- One row for each worker and org: it goes round all of them, and is seen where it comes by.
create table heartbeats (
  org_id uuid not null references orgs,
  worker_id uuid not null,
  started_at timestamptz not null,
  seen_at timestamptz not null,
  primary key (org_id, worker_id)
);

alter table heartbeats enable row level security;
alter table heartbeats force row level security;
grant select, insert, update, delete on heartbeats to roomlore_app;
create policy owner on heartbeats to roomlore_owner using (true) with check (true);
create policy change on heartbeats to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));
