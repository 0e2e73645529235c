-- Search by meaning and by words, and what stands around a find. As before these functions run as the owner, because
-- a policy would disable the indexes of words and vectors; each reads `readable_messages`, which states the whole
-- rule, and none returns a message's text. What is counted is counted among what the viewer may read.
--
-- Their plans are made once a session, whatever the parameters: the rule is long, and planning it anew for each search
-- takes milliseconds.

drop function best_worded(text, uuid[], uuid[], text[], timestamptz, timestamptz, integer);
drop function nearest_exact(halfvec, text, uuid[], uuid[], text[], timestamptz, timestamptz, integer);
drop function nearest_indexed(halfvec, text, uuid[], uuid[], text[], timestamptz, timestamptz, integer);

-- Org and room stand in the indexes of words: a word that everybody uses is looked up in one room as fast as in a small
-- database. Not every server has what this takes; without it large orgs search more slowly, and find the same.
--
-- How common a word is, is told from one message in 256. No table of words is kept: it would have to forget what is
-- erased, and would count what not everybody may read.
drop index messages_words;
do $$
declare
  place constant text := case
    when exists (select 1 from pg_extension where extname = 'btree_gin') then 'org_id, room_id, '
    else ''
  end;
begin
  execute format('create index messages_words on messages using gin (%swords)', place);
  execute format('create index messages_sampled on messages using gin (%swords) where (uuid_hash(id) & 255) = 0', place);
end $$;

-- Where to look; null in any field means everywhere.
create type search_scope as (
  rooms uuid[],
  authors uuid[],
  author_kinds text[],
  conversations uuid[],
  -- only what is answered, or only what is not
  is_answered boolean,
  since timestamptz,
  until timestamptz,
  -- nothing that stands after this place in the order of its room
  last_at timestamptz,
  last_order bigint,
  last_id uuid
);

-- As before, but asks only once which org it is.
create or replace function scope_size(rooms uuid[]) returns bigint
  language sql stable security definer set search_path = roomlore, pg_temp
  return (
    select coalesce(sum(message_count), 0)::bigint
    from activity
    where activity.org_id = (select current_org()) and (rooms is null or activity.room_id = any (rooms))
  );

-- Any of these words; null where there are none. A lexeme may hold what means something in a query.
create function any_word(variadic lexemes text[]) returns tsquery
  language sql immutable parallel safe
  return (
    select string_agg(format($word$'%s'$word$, replace(replace(one.lexeme, $$\$$, $$\\$$), $$'$$, $$''$$)), ' | ')
    from unnest(lexemes) as one (lexeme)
    where one.lexeme <> ''
  )::tsquery;

-- The messages among which a filter lets one look, where these are few beside what lies in the rooms: in some
-- conversations, else by some authors, else in a stretch of time. Visible or not, so for the functions below only. Null
-- where there is no such filter, or it leaves too many: each costs some four times what a vector costs in a scan.
create function narrowed(scope search_scope) returns uuid[]
  language plpgsql stable set search_path = roomlore, pg_temp set plan_cache_mode = force_generic_plan
as $$
declare
  since constant timestamptz := coalesce((scope).since, '-infinity');
  until constant timestamptz := coalesce((scope).until, 'infinity');
  -- up to the last message is no stretch: it is everything, as it was then
  is_stretch constant boolean := (scope).since is not null or until < coalesce((scope).last_at, 'infinity');
  most bigint;
  found uuid[];
begin
  if (scope).conversations is null and (scope).authors is null and not is_stretch then
    return null;
  end if;
  most := least(20000, scope_size((scope).rooms) / 4);
  if (scope).conversations is not null then
    found := array(
      select placements.message_id
      from placements
      where placements.org_id = current_org() and placements.conversation_id = any ((scope).conversations)
      limit most + 1
    );
  elsif (scope).authors is not null then
    found := array(
      select messages.id
      from messages
      where messages.org_id = current_org()
        and messages.author_id = any ((scope).authors)
        and ((scope).rooms is null or messages.room_id = any ((scope).rooms))
        and messages.sent_at >= since
        and messages.sent_at < until
      limit most + 1
    );
  else
    found := array(
      select said.id
      from rooms
      cross join lateral (
        select messages.id
        from messages
        where messages.org_id = current_org()
          and messages.room_id = rooms.id
          and messages.sent_at >= since
          and messages.sent_at < until
        limit most + 1
      ) as said
      where rooms.org_id = current_org() and ((scope).rooms is null or rooms.id = any ((scope).rooms))
      limit most + 1
    );
  end if;
  return case when cardinality(found) <= most then found end;
end $$;

select '[1]'::vector; -- loads the extension, so that its settings are known below

do $$
declare
  -- nothing that was said after the last message
  said_by constant text := $said_by$
    (
      (scope).last_id is null
      or (said.sent_at, said.native_order, said.id) <= ((scope).last_at, (scope).last_order, (scope).last_id)
    )
  $said_by$;
  -- nothing that was not yet said
  by_then constant text := $by_then$
    ((scope).until is null or said.sent_at < (scope).until) and
  $by_then$ || said_by;
  fits constant text := by_then || $fits$
    and ((scope).rooms is null or said.room_id = any ((scope).rooms))
    and ((scope).authors is null or said.author_id = any ((scope).authors))
    and ((scope).author_kinds is null or said.author_kind = any ((scope).author_kinds))
    and ((scope).since is null or said.sent_at >= (scope).since)
    and ((scope).conversations is null or conversation_of(said.id) = any ((scope).conversations))
    and (
      (scope).is_answered is null
      -- as `exchange_edges` has it: of what a message answers, only what the viewer may read counts
      or (scope).is_answered = exists (
        select 1
        from replies as edge
        join readable_messages as answer on answer.id = edge.child_id
        where edge.org_id = said.org_id
          and edge.parent_id = said.id
          and $fits$ || replace(said_by, 'said.', 'answer.') || $fits$
          and (
            edge.method = 'explicit'
            or (edge.method = 'thread' or edge.method = 'mention' and edge.confidence >= real '0.8' and position('?' in said.body) > 0)
              and not exists (
                select 1
                from replies as stated
                join readable_messages as parent on parent.id = stated.parent_id
                where stated.org_id = edge.org_id
                  and stated.child_id = edge.child_id
                  and (stated.method = 'explicit' or stated.method = 'thread' and edge.method = 'mention')
              )
          )
      )
    )
    and said.redacted_at is null
    and said.kind in ('message', 'whisper')
  $fits$;
  -- what of a scope matches some words, by the name of a variable
  matches constant text := $matches$
        select said.id, said.words, length(said.words) as size
        from unnest(few_ones) as one (id)
        cross join lateral (
          select * from readable_messages as inside where inside.id = one.id limit 1
        ) as said
        where said.words @@ %2$s and %1$s
        union all
        select said.id, said.words, length(said.words) as size
        from readable_messages as said
        where few_ones is null
          and (scope).rooms is null
          and said.org_id = (select current_org())
          and said.words @@ %2$s
          and %1$s
        union all
        select said.id, said.words, length(said.words) as size
        from unnest((scope).rooms) as asked_room (id)
        cross join lateral (
          select * from readable_messages as inside where inside.room_id = asked_room.id and inside.words @@ %2$s
        ) as said
        where few_ones is null and %1$s
  $matches$;
  -- what is nearest of few
  picked constant text := $picked$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding <=> query) + 0 as distance
          from unnest(few_ones) as one (id)
          cross join lateral (
            select held.message_id, held.embedding
            from message_embeddings as held
            where held.org_id = (select current_org())
              and held.message_id = one.id
              and held.model = wanted_model
              and vector_dims(held.embedding) = vector_dims(query)
            limit 1
          ) as vectors
          order by distance, vectors.message_id
          offset 0
        ) as near
        cross join lateral (
          select 1 from readable_messages as said where said.id = near.message_id and %1$s
        ) as readable
        order by near.distance, near.message_id
        limit wanted;
  $picked$;
  inside constant text := 'and vectors.room_id = any ((scope).rooms)';
  -- what is nearest, every vector looked at
  scanned constant text := $scanned$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding <=> query) + 0 as distance
          from message_embeddings as vectors
          where vectors.org_id = (select current_org())
            and vectors.model = wanted_model
            and vector_dims(vectors.embedding) = vector_dims(query)
            %2$s
          order by distance, vectors.message_id
          offset 0
        ) as near
        cross join lateral (
          select 1 from readable_messages as said where said.id = near.message_id and %1$s
        ) as readable
        order by near.distance, near.message_id
        limit wanted;
  $scanned$;
  -- what is nearest, in the order of the index of a length
  walked constant text := $walked$
        return query
        select near.message_id, 1 - near.distance
        from (
          select vectors.message_id, (vectors.embedding::halfvec(%3$s)) <=> query::halfvec(%3$s) as distance
          from message_embeddings as vectors
          where vectors.org_id = (select current_org())
            and vector_dims(vectors.embedding) = %3$s
            and vectors.model = wanted_model
            %2$s
          order by (vectors.embedding::halfvec(%3$s)) <=> query::halfvec(%3$s)
          offset 0
        ) as near
        cross join lateral (
          -- with a limit, or a planner may begin with messages, and the order of the index is lost
          select 1 from readable_messages as said where said.id = near.message_id and %1$s limit 1
        ) as readable
        limit wanted;
  $walked$;
  -- a plan knows the length of what it compares: there is one for each
  walks text := '';
  length integer;
begin
  foreach length in array indexed_lengths() loop
    walks := walks || format(
      'elsif vector_dims(query) = %1$s and (scope).rooms is null then %2$s
      elsif vector_dims(query) = %1$s then %3$s ',
      length, format(walked, fits, '', length), format(walked, fits, inside, length)
    );
  end loop;

  -- Nearest messages by exact scan. Distances first, visibility in their order until enough are found: far fewer
  -- messages are looked at than lie in the scope.
  execute format($create$
    create function nearest_exact(query halfvec, wanted_model text, scope search_scope, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      -- to start a second process takes as long as the scan of a small room
      set max_parallel_workers_per_gather = 0
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
    begin
      if few_ones is not null then
        %1$s
      elsif (scope).rooms is null then
        %2$s
      else
        %3$s
      end if;
    end $body$
  $create$, format(picked, fits), format(scanned, fits, ''), format(scanned, fits, inside));

  -- Nearest messages through the index. Iterative scan is off by default and would silently lose rows.
  execute format($create$
    create function nearest_indexed(query halfvec, wanted_model text, scope search_scope, wanted integer)
      returns table (message_id uuid, similarity double precision)
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
      set hnsw.iterative_scan = 'relaxed_order' set hnsw.ef_search = 100 set hnsw.max_scan_tuples = 200000
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
    begin
      if few_ones is not null then
        %1$s
      %2$s
      end if;
    end $body$
  $create$, format(picked, fits), walks);

  -- The messages that share most with what is asked, by words alone, with the words of the question and how rare each
  -- is: ln(1 + n / df), n the sum of all df, among what the viewer may read. Of a scope so large that common words
  -- would fetch a great part of it only a sample is counted, and common words count together only.
  execute format($create$
    create function best_worded(question text, scope search_scope, is_large boolean, wanted integer)
      returns table (lexemes text[], rarities double precision[], message_ids uuid[])
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set plan_cache_mode = force_generic_plan
    as $body$
    declare
      few_ones constant uuid[] := narrowed(scope);
      few constant integer := 800;
      enough constant integer := 100;
      most constant integer := 500;
      -- what more messages have tells next to nothing, not even together with another word
      telling constant integer := 64000;
      counted_up_to constant integer := telling / 256 + 1;
      asked text[] := array(
        select first.lexeme
        from (
          select one.lexeme from unnest(to_tsvector('english', question)) as one order by one.positions[1] limit 64
        ) as first
        order by 1
      );
      counts bigint[];
      rare text[];
      -- rarest first, and how many messages have each
      common text[];
      spread bigint[];
      is_short boolean;
      query tsquery;
      -- of words that are common, two together; the others where these are too few
      pairs tsquery;
      other_pairs tsquery;
    begin
      if is_large then
        counts := array(
          select (
            select 256 * count(*)
            from (
              select 1
              from readable_messages as said
              where said.org_id = (select current_org())
                and said.words @@ any_word(one.lexeme)
                and (uuid_hash(said.id) & 255) = 0
                and ((scope).rooms is null or said.room_id = any ((scope).rooms))
                and %5$s
              limit counted_up_to
            ) as sampled
          )
          from unnest(asked) with ordinality as one (lexeme, place)
          order by one.place
        );
        with counted as (
          select one.lexeme, one.df, sum(one.df + 1) over (order by one.df, one.lexeme) <= few as is_rare
          from unnest(asked, counts) as one (lexeme, df)
        )
        select
          array_agg(lexeme) filter (where is_rare),
          array_agg(lexeme order by df, lexeme) filter (where not is_rare),
          array_agg(df order by df, lexeme) filter (where not is_rare),
          coalesce(sum(df) filter (where is_rare), 0) < enough
        from counted
        into rare, common, spread, is_short;
        query := any_word(variadic rare);
        if is_short and (rare is null or spread[1] <= telling) then
          -- what the rarest of them is read for: the index skips through the others
          pairs := coalesce(
            any_word(common[1]) && any_word(variadic common[2:3]),
            case when rare is null then any_word(common[1]) end
          );
          if spread[2] <= telling then
            other_pairs := any_word(common[2]) && any_word(common[3]);
          end if;
        end if;
      else
        query := any_word(variadic asked);
      end if;

      return query
      with telling_ones as materialized (
        %2$s
      ),
      paired as materialized (
        select * from (%3$s) as said where query is null or not said.words @@ query limit most
      ),
      matched as materialized (
        select * from telling_ones
        union all
        select * from paired
        union all
        (
          select *
          from (%4$s) as said
          where (select count(*) from paired) < wanted
            and (query is null or not said.words @@ query)
            and not said.words @@ pairs
          limit most
        )
      ),
      asking as materialized (
        select one.lexeme, one.place, any_word(one.lexeme) as word
        from unnest(asked) with ordinality as one (lexeme, place)
      ),
      hits as (
        select matched.id, matched.size, asking.place
        from matched
        join asking on matched.words @@ asking.word
      ),
      found as (
        select asking.lexeme, asking.place, greatest(count(hits.id), counts[asking.place])::float8 as df
        from asking
        left join hits on hits.place = asking.place
        group by asking.lexeme, asking.place
      ),
      rarity as (
        select found.lexeme, found.place, ln(1 + sum(found.df) over () / greatest(found.df, 0.5)) as idf from found
      ),
      weighed as (
        select hits.id, sum(rarity.idf) / (0.25 + 0.75 * hits.size / (select avg(size) + 1 from matched) + 1) as weight
        from hits
        join rarity on rarity.place = hits.place
        group by hits.id, hits.size
        order by weight desc, hits.id
        limit wanted
      )
      select
        asked,
        array(select rarity.idf from rarity order by rarity.place),
        array(select weighed.id from weighed order by weighed.weight desc, weighed.id);
    end $body$
  $create$, fits, format(matches, fits, 'query'), format(matches, fits, 'pairs'), format(matches, fits, 'other_pairs'), by_then);

  -- What stands around messages in their rooms, each once, in the order of the rooms: whether it directly follows the
  -- one before it here, how long it is, how often it has each word, how near it is, and whether it may be returned
  -- itself. What was said next to a find tells what it is about, even if it was said by somebody else.
  execute format($create$
    create function surroundings(
      seeds uuid[], lexemes text[], query halfvec, wanted_model text, scope search_scope, reach integer
    )
      returns table (
        message_id uuid, author_name text, follows boolean, size integer, counts integer[],
        similarity double precision, fits boolean
      )
      language plpgsql stable security definer set search_path = roomlore, public, pg_temp
      set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
    as $body$
    declare
      shared constant tsquery := any_word(variadic lexemes);
    begin
      return query
      with placed as materialized (
        select said.id, said.room_id, said.sent_at, said.native_order
        from unnest(seeds) as seed (id)
        cross join lateral (
          select * from readable_messages as one where one.id = seed.id limit 1
        ) as said
      ),
      windows as (
        select
          around.*,
          lag(around.id) over (
            partition by placed.id order by around.sent_at, around.native_order, around.id
          ) as before_id
        from placed
        cross join lateral (
          (
            select said.id, said.room_id, said.sent_at, said.native_order, said.author_name, said.words, %1$s as lies_in
            from readable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.native_order, said.id) < (placed.sent_at, placed.native_order, placed.id)
              and said.kind in ('message', 'whisper')
            order by said.sent_at desc, said.native_order desc, said.id desc
            limit reach
          )
          union all
          (
            select said.id, said.room_id, said.sent_at, said.native_order, said.author_name, said.words, %1$s as lies_in
            from readable_messages as said
            where said.room_id = placed.room_id
              and (said.sent_at, said.native_order, said.id) >= (placed.sent_at, placed.native_order, placed.id)
              and said.kind in ('message', 'whisper')
              and %2$s
            order by said.sent_at, said.native_order, said.id
            limit reach + 1
          )
        ) as around
      ),
      once as (
        select distinct on (windows.room_id, windows.sent_at, windows.native_order, windows.id) windows.*
        from windows
        order by windows.room_id, windows.sent_at, windows.native_order, windows.id, windows.before_id nulls last
      )
      select
        once.id,
        once.author_name,
        coalesce(
          once.before_id = lag(once.id) over (order by once.room_id, once.sent_at, once.native_order, once.id), false
        ),
        length(once.words),
        case when once.words @@ shared then array(
          select coalesce(cardinality(word.positions), 0)
          from unnest(lexemes) with ordinality as one (lexeme, place)
          left join unnest(once.words) as word on word.lexeme = one.lexeme
          order by one.place
        ) end,
        1 - (
          select vectors.embedding <=> query
          from message_embeddings as vectors
          where vectors.org_id = (select current_org()) and vectors.message_id = once.id and vectors.model = wanted_model
            and vector_dims(vectors.embedding) = vector_dims(query)
        ),
        once.lies_in
      from once
      order by once.room_id, once.sent_at, once.native_order, once.id;
    end $body$
  $create$, fits, by_then);
end $$;

revoke execute on all functions in schema roomlore from public;
grant execute on function any_word(text[]) to roomlore_app;
grant usage on type search_scope to roomlore_app;
grant execute on function
  nearest_exact(halfvec, text, search_scope, integer), nearest_indexed(halfvec, text, search_scope, integer),
  best_worded(text, search_scope, boolean, integer),
  surroundings(uuid[], text[], halfvec, text, search_scope, integer)
  to roomlore_app;
