-- The activity log: who read or changed what.

-- name: append
-- Add a line to the log.
insert into activity_log (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms)
values (
  %(org_id)s, %(id)s, %(key_id)s, %(viewer_id)s, %(action)s, %(outcome)s, %(subject_ids)s::uuid[], %(took_ms)s
);

-- name: newest_lines -> LogLine
-- The newest lines of the log that the viewer may see, newest first; if asked, only those that name an id of a
-- range: as key, as viewer, or as what was shown or changed.
select id, at, key_id, viewer_id, action, outcome, subject_ids
from activity_log
where org_id = %(org_id)s
  and (
    %(low)s::uuid is null
    or key_id between %(low)s and %(high)s
    or viewer_id between %(low)s and %(high)s
    or exists (select 1 from unnest(subject_ids) as subject_id where subject_id between %(low)s and %(high)s)
  )
order by id desc
limit %(limit)s;
