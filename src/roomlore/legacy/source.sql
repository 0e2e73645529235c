-- name: columns
select attname
from pg_attribute
where attrelid = to_regclass(%(table)s) and attnum > 0 and not attisdropped;
