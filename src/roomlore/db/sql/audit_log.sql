-- name: append
insert into audit_log (org_id, id, key_id, viewer_id, action, outcome, subject_ids, took_ms)
values (
  %(org_id)s, %(line_id)s, %(key_id)s, %(participant_id)s, %(action)s, %(outcome)s, %(subject_ids)s::uuid[], %(took_ms)s
);

-- name: newest_lines
select id, at, key_id, viewer_id, action, outcome, subject_ids
from audit_log
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
