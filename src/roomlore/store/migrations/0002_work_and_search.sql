-- Functions that run as the owner, because they look across orgs (work) or must use indexes whose
-- operators a policy would disable (search). Each states the org or reads `readable_messages`,
-- which states the whole rule; none returns a message's text.

-- Whether the transaction speaks for no viewer, as the workers' own do.
create function speaks_for_nobody() returns boolean
  language sql stable parallel safe
  return nullif(current_setting('roomlore.viewer', true), '') is null;

-- The ids of all orgs, for workers, which then work in each of them on its operator's behalf.
create function org_ids() returns setof uuid
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select orgs.org_id from orgs where speaks_for_nobody() order by orgs.org_id;
end;

-- Take up to `total` due rows of a stage, at most `per_org` of each org or of one org only, and lease them.
-- A row that was taken and never finished is due again when its lease ends. What ended in nothing three
-- times is suspect and comes only when suspects are asked for, which is done one by one, at odd times, so
-- that it takes no others down with it; what ended ten workers is set aside instead of given to an eleventh.
create function take_work(
  wanted_stage text, only_org uuid, per_org integer, total integer, lease interval,
  suspects boolean default false
)
  returns table (org_id uuid, subject_id uuid, version integer, attempts integer)
  language sql volatile security definer set search_path = roomlore, pg_temp
begin atomic
  with due_orgs as (
    select orgs.org_id
    from orgs
    where speaks_for_nobody() and (only_org is null or orgs.org_id = only_org) and exists (
      select 1 from work
      where work.stage = wanted_stage and work.org_id = orgs.org_id
        and work.set_aside_at is null and work.due_at <= now()
        and (work.attempts >= 3) = suspects
    )
    order by random()
  ),
  taken as (
    select mine.org_id, mine.subject_id
    from due_orgs
    cross join lateral (
      select work.org_id, work.subject_id
      from work
      where work.stage = wanted_stage and work.org_id = due_orgs.org_id
        and work.set_aside_at is null and work.due_at <= now()
        and (work.attempts >= 3) = suspects
      order by work.due_at
      limit per_org
      for update skip locked
    ) as mine
    limit total
  ),
  leased as (
    update work
    set
      due_at = now() + lease * case when suspects then 1 + random() else 1 end,
      attempts = work.attempts + 1,
      set_aside_at = case when work.attempts >= 10 then now() end,
      error = case when work.attempts >= 10 then 'Unfinished' else work.error end
    from taken
    where work.org_id = taken.org_id and work.stage = wanted_stage and work.subject_id = taken.subject_id
    returning work.org_id, work.subject_id, work.version, work.attempts, work.set_aside_at
  )
  select leased.org_id, leased.subject_id, leased.version, leased.attempts
  from leased
  where leased.set_aside_at is null;
end;

-- Rows still to do and rows set aside, over all orgs or of one: numbers for the worker's own progress.
create function count_work(wanted_stage text, only_org uuid) returns table (waiting bigint, set_aside bigint)
  language sql stable security definer set search_path = roomlore, pg_temp
begin atomic
  select count(*) filter (where work.set_aside_at is null), count(*) filter (where work.set_aside_at is not null)
  from work
  where work.stage = wanted_stage
    and (only_org is null or work.org_id = only_org)
    and speaks_for_nobody();
end;

-- How many vectors lie in a scope: it chooses between exact scan and index, and is never shown.
create function scope_size(rooms uuid[]) returns bigint
  language sql stable security definer set search_path = roomlore, pg_temp
  return (
    select coalesce(sum(message_count), 0)::bigint
    from activity
    where activity.org_id = current_org() and (rooms is null or activity.room_id = any (rooms))
  );

-- Nearest messages by exact scan. Distances first, visibility in their order until enough are found: far
-- fewer messages are looked at than lie in the scope.
create function nearest_exact(
  query halfvec, wanted_model text, rooms uuid[], authors uuid[], author_kinds text[],
  since timestamptz, until timestamptz, wanted integer
) returns table (message_id uuid, similarity double precision)
  language sql stable security definer set search_path = roomlore, public, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan
as $$
  select near.message_id, 1 - near.distance
  from (
    select vectors.message_id, (vectors.embedding <=> query) + 0 as distance
    from message_embeddings as vectors
    where vectors.org_id = current_org()
      and vectors.model = wanted_model
      and (rooms is null or vectors.room_id = any (rooms))
    order by distance, vectors.message_id
    offset 0
  ) as near
  cross join lateral (
    select 1
    from readable_messages as said
    where said.id = near.message_id
      and (authors is null or said.author_id = any (authors))
      and (author_kinds is null or said.author_kind = any (author_kinds))
      and (since is null or said.sent_at >= since)
      and (until is null or said.sent_at < until)
      and said.redacted_at is null
  ) as readable
  order by near.distance, near.message_id
  limit wanted
$$;

-- Nearest messages through the index. Iterative scan is off by default and would silently lose rows.
select '[1]'::vector; -- loads the extension, so that its settings are known below
create function nearest_indexed(
  query halfvec, wanted_model text, rooms uuid[], authors uuid[], author_kinds text[],
  since timestamptz, until timestamptz, wanted integer
) returns table (message_id uuid, similarity double precision)
  language sql stable security definer set search_path = roomlore, public, pg_temp
  set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan
  set hnsw.iterative_scan = 'relaxed_order' set hnsw.ef_search = 200 set hnsw.max_scan_tuples = 200000
as $$
  select near.message_id, 1 - near.distance
  from (
    select vectors.message_id, (vectors.embedding::halfvec(384)) <=> query::halfvec(384) as distance
    from message_embeddings as vectors
    where vectors.org_id = current_org()
      and vector_dims(vectors.embedding) = 384
      and vectors.model = wanted_model
      and (rooms is null or vectors.room_id = any (rooms))
    order by (vectors.embedding::halfvec(384)) <=> query::halfvec(384)
    offset 0
  ) as near
  cross join lateral (
    select 1
    from readable_messages as said
    where said.id = near.message_id
      and (authors is null or said.author_id = any (authors))
      and (author_kinds is null or said.author_kind = any (author_kinds))
      and (since is null or said.sent_at >= since)
      and (until is null or said.sent_at < until)
      and said.redacted_at is null
  ) as readable
  limit wanted
$$;

-- How long vectors are that can have an approximate index: an index knows the length of what it holds, and a plan that of
-- what it compares. Those of common models; of any other every vector is looked at.
create function indexed_lengths() returns integer[]
  language sql immutable
return array[384, 512, 768, 1024, 1536, 2048, 3072];

-- Build the approximate index of one partition, for one length of vectors, that has become worth it and is not there; return
-- how many were built. Worth it: some org has so many vectors of that length of one model, for a search stays inside
-- both. Reads go on while an index is built. Whoever writes vectors of that partition waits: the embedding
-- worker, and edits and redactions, which drop vectors. Hence one index a transaction, and no lock is
-- asked for before it is known that there is something to build.
create function build_vector_indexes(worth_it bigint) returns integer
  language plpgsql volatile security definer set search_path = roomlore, public, pg_temp
  -- What does not fit is built many times as slowly; 200,000 vectors of 384 numbers take some 220 MB.
  set maintenance_work_mem = '512MB'
as $$
declare
  part regclass;
  lengths integer[];
  length integer;
begin
  for part in
    select inhrelid from pg_inherits where inhparent = 'message_embeddings'::regclass and speaks_for_nobody()
  loop
    -- a number takes two bytes: a smaller table, what lies beside it included, needs no look inside
    continue when pg_table_size(part) < worth_it * 2 * (select min(one) from unnest(indexed_lengths()) as one);
    execute format(
      'select array(
         select distinct vector_dims(sample.embedding)
         from (select org_id, model from %1$s group by org_id, model having count(*) >= $1) as large
         cross join lateral (
           select embedding from %1$s as one
           where one.org_id = large.org_id and one.model = large.model
           limit 1
         ) as sample
         where vector_dims(sample.embedding) = any (indexed_lengths())
         order by 1
       )', part) into lengths using worth_it;
    foreach length in array lengths loop
      continue when to_regclass(part::text || '_near_' || length) is not null;
      -- a second worker does not wait for the first to build the same
      continue when not pg_try_advisory_xact_lock('pg_class'::regclass::integer, part::oid::integer);
      continue when to_regclass(part::text || '_near_' || length) is not null;
      execute format(
        'create index %1$I on %2$s using hnsw ((embedding::halfvec(%3$s)) halfvec_cosine_ops)
         where vector_dims(embedding) = %3$s',
        part::text || '_near_' || length, part, length);
      return 1;
    end loop;
  end loop;
  return 0;
end $$;

-- Let the planner know what tables have become: right after an import it knows nothing, and the server's own
-- housekeeping takes a minute to come by.
create function refresh_statistics() returns void
  language plpgsql volatile security definer set search_path = roomlore, pg_temp
as $$
declare
  grown regclass;
begin
  for grown in
    select relid
    from pg_stat_user_tables
    where schemaname = 'roomlore'
      and speaks_for_nobody()
      and n_mod_since_analyze > 1000
      and n_mod_since_analyze > n_live_tup / 10
  loop
    execute format('analyze %s', grown);
  end loop;
end $$;

-- Messages that share words with the question, weighted by how rare each word is among what the viewer
-- may read and matches (Robertson's idf and length norm, k1 1.2, b 0.75, a word counted once a message).
create function best_worded(
  question text, rooms uuid[], authors uuid[], author_kinds text[],
  since timestamptz, until timestamptz, wanted integer
) returns table (message_id uuid, weight double precision, coverage double precision, terms text[])
  language sql stable security definer set search_path = roomlore, public, pg_temp
  set plan_cache_mode = force_custom_plan
as $$
  with asked as (
    select lexeme, (quote_literal(lexeme))::tsquery as query
    from unnest(to_tsvector('english', question))
  ),
  matched as materialized (
    select said.id, said.words, length(said.words) as size
    from readable_messages as said
    where said.words @@ (select string_agg(quote_literal(lexeme), ' | ')::tsquery from asked)
      and said.kind in ('message', 'whisper')
      and (rooms is null or said.room_id = any (rooms))
      and (authors is null or said.author_id = any (authors))
      and (author_kinds is null or said.author_kind = any (author_kinds))
      and (since is null or said.sent_at >= since)
      and (until is null or said.sent_at < until)
      and said.redacted_at is null
  ),
  pool as (
    select count(*)::float8 as matches, greatest(avg(size), 1)::float8 as usual_size from matched
  ),
  hits as (
    select matched.id, matched.size, asked.lexeme
    from matched
    join asked on matched.words @@ asked.query
  ),
  rarity as (
    select asked.lexeme, ln(1 + 2 * pool.matches / greatest(count(hits.id), 0.5)) as idf
    from asked
    left join hits on hits.lexeme = asked.lexeme
    cross join pool
    group by asked.lexeme, pool.matches
  )
  select
    hits.id,
    sum(rarity.idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * hits.size / pool.usual_size))) as weight,
    sum(rarity.idf) / (select sum(idf) from rarity) as coverage,
    array_agg(hits.lexeme order by rarity.idf desc, hits.lexeme)
  from hits
  join rarity using (lexeme)
  cross join pool
  group by hits.id
  order by weight desc, hits.id
  limit wanted
$$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
