-- name: read_receipts
-- Receipts of all erasures.
copy (select * from receipts) to stdout;

-- name: read_accounts
-- Digests of erased accounts.
copy (select * from erased_accounts) to stdout;

-- name: read_names
-- Digests of erased names.
copy (select * from erased_names) to stdout;

-- name: read_ranges
-- Erased ranges of rooms.
copy (select * from erased_ranges) to stdout;

-- name: read_rooms
-- Digests of erased rooms.
copy (select * from erased_rooms) to stdout;

-- name: read_tombstones
-- Erased messages.
copy (select org_id, id, erased_at, redacted_at from messages where erased_at is not null) to stdout;

-- name: read_redactions
-- Redacted messages.
copy (select org_id, id, redacted_at from messages where redacted_at is not null and erased_at is null) to stdout;

-- name: read_requests
-- Privacy requests that hide messages.
copy (select * from privacy_requests where status = 'active') to stdout;

-- name: read_restrictions
-- What they hide.
copy (select * from restricted_messages) to stdout;

-- name: read_revoked_keys
-- Revoked keys.
copy (select org_id, id, revoked_at from api_keys where revoked_at is not null) to stdout;

-- name: read_retention
-- How long rooms keep messages.
copy (select org_id, id, retention_period, previous_retention_period, retention_starts_at from rooms) to stdout;

-- name: read_audit_log
-- Lines of the audit log.
copy (select * from audit_log) to stdout;

-- name: read_projections
-- Indexes in other servers.
copy (select * from projections) to stdout;

-- name: make_receipts
-- Receipts of all erasures.
create temporary table kept_receipts on commit drop as select * from receipts with no data;

-- name: make_accounts
-- Digests of erased accounts.
create temporary table kept_accounts on commit drop as select * from erased_accounts with no data;

-- name: make_names
-- Digests of erased names.
create temporary table kept_names on commit drop as select * from erased_names with no data;

-- name: make_ranges
-- Erased ranges of rooms.
create temporary table kept_ranges on commit drop as select * from erased_ranges with no data;

-- name: make_rooms
-- Digests of erased rooms.
create temporary table kept_rooms on commit drop as select * from erased_rooms with no data;

-- name: make_tombstones
-- Erased messages.
create temporary table kept_tombstones on commit drop as select org_id, id, erased_at, redacted_at from messages with no data;

-- name: make_redactions
-- Redacted messages.
create temporary table kept_redactions on commit drop as
select org_id, id, redacted_at from messages with no data;

-- name: make_requests
-- Privacy requests that hide messages.
create temporary table kept_requests on commit drop as select * from privacy_requests with no data;

-- name: make_restrictions
-- What they hide.
create temporary table kept_restrictions on commit drop as select * from restricted_messages with no data;

-- name: make_revoked_keys
-- Revoked keys.
create temporary table kept_revoked_keys on commit drop as select org_id, id, revoked_at from api_keys with no data;

-- name: make_retention
-- How long rooms keep messages.
create temporary table kept_retention on commit drop as
select org_id, id, retention_period, previous_retention_period, retention_starts_at from rooms with no data;

-- name: make_audit_log
-- Lines of the audit log.
create temporary table kept_audit_log on commit drop as select * from audit_log with no data;

-- name: make_projections
-- Indexes in other servers.
create temporary table kept_projections on commit drop as select * from projections with no data;

-- name: orgs
select org_id from orgs order by org_id;

-- name: new_receipts
select distinct on (kept_receipts.at, kept_receipts.id)
  id, at, kind, room_id, message_id, participant_ids, since, until, key_id, viewer_id, removed, kept, checks,
  checked_at
from pg_temp.kept_receipts
where org_id = %(org_id)s
  and not exists (select from receipts where receipts.org_id = kept_receipts.org_id and receipts.id = kept_receipts.id)
order by kept_receipts.at, kept_receipts.id;

-- name: new_tombstones
select messages.id, messages.room_id, messages.author_id
from messages
where messages.org_id = %(org_id)s
  and messages.erased_at is null
  and exists (
    select from pg_temp.kept_tombstones as kept where kept.org_id = messages.org_id and kept.id = messages.id
  )
order by messages.id
limit %(limit)s;

-- name: new_redactions
select messages.id, messages.room_id
from messages
where messages.org_id = %(org_id)s
  and messages.erased_at is null
  and messages.redacted_at is null
  and exists (
    select from pg_temp.kept_redactions as kept where kept.org_id = messages.org_id and kept.id = messages.id
  )
order by messages.id
limit %(limit)s;

-- name: date_tombstones
update messages
set erased_at = kept.erased_at, redacted_at = kept.redacted_at
from pg_temp.kept_tombstones as kept
where messages.org_id = kept.org_id and messages.id = kept.id and messages.erased_at <> kept.erased_at;

-- name: date_redactions
update messages
set redacted_at = kept.redacted_at
from pg_temp.kept_redactions as kept
where messages.org_id = kept.org_id and messages.id = kept.id and messages.redacted_at <> kept.redacted_at;

-- name: keep_accounts
insert into erased_accounts (org_id, digest, erased_at)
select kept.org_id, kept.digest, max(kept.erased_at)
from pg_temp.kept_accounts as kept
join orgs on orgs.org_id = kept.org_id
group by kept.org_id, kept.digest
on conflict (org_id, digest) do update set erased_at = excluded.erased_at
where erased_accounts.erased_at <> excluded.erased_at;

-- name: keep_names
insert into erased_names (org_id, digest, erased_at)
select kept.org_id, kept.digest, max(kept.erased_at)
from pg_temp.kept_names as kept
join orgs on orgs.org_id = kept.org_id
group by kept.org_id, kept.digest
on conflict (org_id, digest) do update set erased_at = excluded.erased_at
where erased_names.erased_at <> excluded.erased_at;

-- name: keep_rooms
insert into erased_rooms (org_id, digest, erased_at)
select kept.org_id, kept.digest, max(kept.erased_at)
from pg_temp.kept_rooms as kept
join orgs on orgs.org_id = kept.org_id
group by kept.org_id, kept.digest
on conflict (org_id, digest) do update set erased_at = excluded.erased_at
where erased_rooms.erased_at <> excluded.erased_at;

-- name: keep_ranges
-- Ranges of rooms that are in the database.
insert into erased_ranges (org_id, room_id, since, until, erased_at)
select kept.org_id, kept.room_id, kept.since, kept.until, kept.erased_at
from pg_temp.kept_ranges as kept
join rooms on rooms.org_id = kept.org_id and rooms.id = kept.room_id
on conflict do nothing;

-- name: keep_receipts
insert into receipts (
  org_id, id, at, kind, room_id, message_id, participant_ids, since, until, key_id, viewer_id, removed, kept, checks,
  checked_at
)
select
  kept.org_id, kept.id, kept.at, kept.kind, kept.room_id, kept.message_id, kept.participant_ids, kept.since, kept.until,
  kept.key_id, kept.viewer_id, kept.removed, kept.kept, kept.checks, kept.checked_at
from pg_temp.kept_receipts as kept
join orgs on orgs.org_id = kept.org_id
on conflict do nothing;

-- name: revoke_keys
update api_keys
set revoked_at = kept.revoked_at
from pg_temp.kept_revoked_keys as kept
where api_keys.org_id = kept.org_id and api_keys.id = kept.id and api_keys.revoked_at is null;

-- name: keep_retention
update rooms
set
  retention_period = kept.retention_period,
  previous_retention_period = kept.previous_retention_period,
  retention_starts_at = kept.retention_starts_at
from pg_temp.kept_retention as kept
where rooms.org_id = kept.org_id
  and rooms.id = kept.id
  and (rooms.retention_period, rooms.previous_retention_period, rooms.retention_starts_at)
    is distinct from (kept.retention_period, kept.previous_retention_period, kept.retention_starts_at);

-- name: activate_requests
-- A request may have been applied by a person since.
update privacy_requests
set status = 'active', decided_at = kept.decided_at, decided_by = null, review_reason = kept.review_reason
from pg_temp.kept_requests as kept
where privacy_requests.org_id = kept.org_id and privacy_requests.id = kept.id and privacy_requests.status <> 'active';

-- name: keep_requests
-- A request whose message is not in the database becomes a tombstone: it hides what it hid, without author and text.
insert into privacy_requests (
  org_id, id, room_id, message_id, author_id, kind, status, detected_by, detected_at, decided_at, target_ids,
  identifiers, own_identifiers, from_ids, exempt_ids, is_ongoing, since, allowed_topics, denied_topics,
  covered_author_ids, spans, review_reason
)
select
  kept.org_id, kept.id, kept.room_id, message.id, message.author_id,
  case when message.id is null then 'forget' else kept.kind end,
  'active', kept.detected_by, kept.detected_at, kept.decided_at,
  case when message.id is null then '{}' else kept.target_ids end,
  case when message.id is null then '{}' else kept.identifiers end,
  case when message.id is null then '{}' else kept.own_identifiers end,
  kept.from_ids, kept.exempt_ids,
  message.id is not null and kept.is_ongoing, kept.since, kept.allowed_topics, kept.denied_topics,
  kept.covered_author_ids,
  case when message.id is not null then kept.spans end,
  kept.review_reason
from pg_temp.kept_requests as kept
join rooms on rooms.org_id = kept.org_id and rooms.id = kept.room_id
left join messages as message
  on message.org_id = kept.org_id
  and message.id = kept.message_id
  and message.author_id = kept.author_id
  and message.erased_at is null
  and message.redacted_at is null
on conflict do nothing;

-- name: keep_restrictions
insert into restricted_messages (org_id, message_id, request_id, from_ids, exempt_ids)
select kept.org_id, kept.message_id, kept.request_id, kept.from_ids, kept.exempt_ids
from pg_temp.kept_restrictions as kept
join messages
  on messages.org_id = kept.org_id and messages.id = kept.message_id and messages.erased_at is null
join privacy_requests as request on request.org_id = kept.org_id and request.id = kept.request_id
where kept.org_id = %(org_id)s
on conflict do nothing
returning message_id;

-- name: drop_idle_requests
-- Tombstones that hide nothing.
delete from privacy_requests
where message_id is null
  and not exists (
    select
    from restricted_messages as restricted
    where restricted.org_id = privacy_requests.org_id and restricted.request_id = privacy_requests.id
  );

-- name: keep_audit_log
insert into audit_log (org_id, id, at, key_id, viewer_id, action, outcome, subject_ids, took_ms)
select
  kept.org_id, kept.id, kept.at, kept.key_id, kept.viewer_id, kept.action, kept.outcome, kept.subject_ids, kept.took_ms
from pg_temp.kept_audit_log as kept
join orgs on orgs.org_id = kept.org_id
on conflict do nothing;

-- name: keep_projections
insert into projections
select kept.* from pg_temp.kept_projections as kept join orgs on orgs.org_id = kept.org_id;

-- name: has_common_org
select exists (
  select from orgs
  where exists (select from pg_temp.kept_retention as kept where kept.org_id = orgs.org_id)
    or exists (select from pg_temp.kept_receipts as kept where kept.org_id = orgs.org_id)
);

-- name: has_room
select exists (select from rooms where org_id = %(org_id)s and id = %(room_id)s);
