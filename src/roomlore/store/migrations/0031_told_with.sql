-- What a message was told with is shown with it: whom it names and who reacted, as far as the viewer may know them.

-- Whom and which rooms a message names, in its platform's own structure or by marks in its words like <@9> or <#5>: those
-- that the viewer may know, as the viewer may call them. Asked with the rights of whoever reads.
create function named_in(room uuid, accounts jsonb, words text) returns jsonb
  language sql stable parallel safe set search_path = roomlore, pg_temp
as $$
  with said as (
    select kind, word
    from (
      select '@' as kind, listed.word
      from jsonb_array_elements_text(
        case jsonb_typeof(accounts) when 'array' then accounts else '[]' end
      ) as listed (word)
      union
      select mark[1], mark[2] from regexp_matches(words, '<([@#])[!&]?([^<>|\s]{1,100})(?:\|[^<>]*)?>', 'g') as mark
    ) as named
    order by kind, word
    limit 200
  ),
  here as (
    select platform from rooms where org_id = current_org() and id = room
  )
  select coalesce(jsonb_agg(known.one order by known.kind, known.word), '[]')
  from (
    select
      said.kind, said.word,
      jsonb_build_object(
        'external_id', said.word, 'name', known_participants.name, 'participant_id', known_participants.id, 'room_id', null
      ) as one
    from said
    cross join here
    join identities
      on identities.org_id = current_org()
      and identities.platform = here.platform
      and identities.account_id = said.word
      and identities.persona = ''
    join known_participants
      on known_participants.org_id = current_org() and known_participants.id = identities.participant_id
    where said.kind = '@'
    union all
    select
      said.kind, said.word,
      jsonb_build_object('external_id', said.word, 'name', rooms.name, 'participant_id', null, 'room_id', rooms.id)
    from said
    cross join here
    join rooms
      on rooms.org_id = current_org() and rooms.platform = here.platform and rooms.external_id = said.word
    where said.kind = '#'
  ) as known
$$;

-- Reactions: what, how many, and who, as far as the viewer may know them.
create function reacted_to(room uuid, reactions jsonb) returns jsonb
  language sql stable parallel safe set search_path = roomlore, pg_temp
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'emoji', left(coalesce(one.value ->> 'emoji', ''), 100),
        'count', one.value -> 'count',
        'named', coalesce(jsonb_array_length(nullif(one.value -> 'by', 'null')), 0),
        'by', named_in(room, one.value -> 'by', '')
      )
      order by one.place
    ),
    '[]'
  )
  from jsonb_array_elements(
    case jsonb_typeof(reactions) when 'array' then reactions else '[]' end
  ) with ordinality as one (value, place)
  where jsonb_typeof(one.value) = 'object'
    and coalesce(jsonb_typeof(one.value -> 'by'), 'array') in ('array', 'null')
$$;

-- As before, and what a message was told with. What its platform itself says of it may name people, rooms and messages of
-- which the viewer does not know: that is the operator's.
do $$
begin
  execute format(
    $view$
      create or replace view timeline with (security_invoker = true) as
      select
        held.*,
        case
          when held.mentions is not null or strpos(held.body, '<@') > 0 or strpos(held.body, '<#') > 0
            then named_in(held.room_id, held.mentions, held.body)
          else '[]'
        end as mentioned,
        case when held.reactions is null then '[]' else reacted_to(held.room_id, held.reactions) end as reacted,
        case
          when held.metadata is null then '{}'
          when (select viewer_is_operator()) then held.metadata
          else held.metadata - 'platform'
        end as told_metadata
      from (%s) as held
    $view$,
    rtrim(pg_get_viewdef('timeline'::regclass), ';')
  );
end $$;

revoke execute on all functions in schema roomlore from public;
grant execute on all functions in schema roomlore to roomlore_app;
