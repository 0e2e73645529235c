-- What was asked for under a key of the caller's own, so that asking again does nothing again.
create table idempotency (
  org_id uuid not null references orgs,
  -- of who asked and of the key they gave: SHA-256, so that neither is kept
  digest bytea not null check (length(digest) = 32),
  -- of what was asked for
  request bytea not null check (length(request) = 32),
  -- tells apart who holds it
  claim uuid not null,
  claimed_at timestamptz not null,
  -- null: under way, or nobody knows what became of it
  status smallint,
  -- Null where it holds words, or a secret. Words are read anew where they stand; a secret is told once.
  body bytea,
  -- where what was made is read again
  place text,
  primary key (org_id, digest),
  check (status is not null or (body is null and place is null))
);

create index idempotency_by_age on idempotency (org_id, claimed_at);

alter table idempotency enable row level security;
alter table idempotency force row level security;
grant select, insert, update, delete on idempotency to roomlore_app;
create policy owner on idempotency to roomlore_owner using (true) with check (true);
create policy change on idempotency to roomlore_app
  using (org_id = (select current_org()) and (select viewer_is_operator()))
  with check (org_id = (select current_org()) and (select viewer_is_operator()));
