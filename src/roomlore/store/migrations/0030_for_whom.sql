-- A memory that rests on no message says for whom it is, and keeps what it was given with.

alter table memories
  -- of one that rests on no message: for the whole org, or for whoever asserted it alone
  add column audience text not null default 'self' check (audience in ('org', 'self')),
  -- as whoever asserted it gave it
  add column metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object');

-- Whether the viewer is somebody of the org.
create function viewer_is_participant() returns boolean
  language sql stable parallel safe security definer set search_path = roomlore, pg_temp
  return exists (
    select 1 from participants where participants.org_id = current_org() and participants.id = any (own_ids())
  );

-- What rests on no message is for whoever asserted it, or for everybody of the org: in the rule for memories, and in what
-- looks for the nearest before it asks that rule.
do $$
declare
  rule text := pg_get_functiondef('can_recall(uuid)'::regprocedure);
  nearest constant text := pg_get_functiondef('nearest_memories(halfvec, text, integer)'::regprocedure);
  own constant text := 'coalesce(held.asserted_by = any (own_ids()), false)';
  told constant text := 'place_is_of(held.asserted_by)';
begin
  if strpos(rule, own) = 0 or strpos(rule, told) = 0 or strpos(nearest, 'held.asserted_by = any (own_ids())') = 0 then
    raise exception 'the rule for memories is not the one expected';
  end if;
  rule := replace(
    rule, own,
    format($rule$(%s or (held.audience = 'org' and (viewer_is_participant() or reads_for_place())))$rule$, own)
  );
  -- What is for the org may be told wherever anybody reads.
  execute replace(
    rule, told, format($rule$%s or (held.audience = 'org' and place_has_readers())$rule$, told)
  );
  execute replace(
    nearest, 'held.asserted_by = any (own_ids())',
    $rule$held.asserted_by = any (own_ids()) or held.audience = 'org'$rule$
  );
end $$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
