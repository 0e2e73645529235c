-- The activity log: who read or changed what.

-- name: append
-- Add a line to the log.
insert into activity_log (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms)
values (
  %(org_id)s, %(id)s, %(key_id)s, %(viewer_id)s, %(action)s, %(outcome)s, %(subject_ids)s::uuid[], %(took_ms)s
);

-- name: newest_lines -> AuditLine
-- The newest lines of the log that the viewer may see, newest first; if asked, only those that name an id that begins
-- or ends so: as key, as viewer, or as what was shown or changed.
select id, at, key_id, viewer_id, action, outcome, subject_ids
from activity_log
where org_id = %(org_id)s
  and (
    %(low)s::uuid is null
    or exists (
      select 1
      from unnest(array[key_id, viewer_id] || subject_ids) as named (id)
      where named.id between %(low)s and %(high)s
        or reverse(replace(named.id::text, '-', ''))::uuid between %(end_low)s and %(end_high)s
    )
  )
order by id desc
limit %(limit)s;
