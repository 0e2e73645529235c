-- A room that is to keep less than before begins to do so after a time in which this can be taken back.

-- Until `retention_starts_at` the room keeps what it kept before: `kept_for_before`, where null is forever.
alter table rooms add column kept_for_before interval check (kept_for_before > interval '0');
alter table rooms add column retention_starts_at timestamptz;
alter table rooms add check (keep_for is not null or retention_starts_at is null);
