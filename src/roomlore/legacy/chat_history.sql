-- name: rows
select {v2_chat_history}
from v2_chat_history
order by v2_chat_history.id;

-- name: bot_accounts
select distinct character_name, author_id
from (select {v2_chat_history} from v2_chat_history) as told
where role = any(%(answered)s::text[]) and character_name is not null;

-- name: rows_by_id
select {v2_chat_history}
from v2_chat_history
where v2_chat_history.id::text = any(%(ids)s::text[]);

-- name: facts
with characters as (
  select name, account
  from unnest(%(names)s::text[], %(accounts)s::text[]) as known (name, account)
),
told as (
  select
    {v2_chat_history},
    v2_chat_history.id as position,
    v2_chat_history."timestamp"::timestamptz as sent_at
  from v2_chat_history
),
sided as (
  select
    told.*,
    case
      when role = any(%(asked)s::text[]) then 'asked'
      when role = any(%(answered)s::text[]) then 'answered'
    end as side,
    (regexp_match(user_id, '^channel_([0-9]{{1,20}})$'))[1] as channel_as_user,
    case when author_id !~ '^channel_[0-9]{{1,20}}$' then author_id end as stated_author
  from told
),
authored as (
  select
    sided.*,
    case
      when side = 'asked' and channel_as_user is null then coalesce(stated_author, user_id)
      when side = 'asked' then stated_author
      when stated_author is distinct from character_name and stated_author is not null then stated_author
      else coalesce(characters.account, character_name)
    end as author
  from sided
  left join characters on characters.name = sided.character_name
),
placed as (
  select
    authored.*,
    coalesce(user_id, author) as partner,
    coalesce(channel_id, channel_as_user) as channel,
    coalesce(channel_id, channel_as_user, character_name || ' with ' || user_id) as room,
    side = 'answered' or author_is_bot is not distinct from 'true' or author = any(%(accounts)s::text[])
      as is_agent
  from authored
),
identified as (
  select
    placed.*,
    case
      when coalesce(channel, partner) ~ '^[1-9][0-9]{{16,19}}$' then 'discord'
      else %(other_platform)s::text
    end as platform,
    coalesce(
      message_id,
      to_char(sent_at at time zone 'UTC', 'YYYYMMDD"T"HH24MISS.US') || ':' || left(encode(sha256(
        convert_to(side, 'UTF8') || '\x00'::bytea || convert_to(partner, 'UTF8') || '\x00'::bytea
        || convert_to(content, 'UTF8')
      ), 'hex'), 16)
    ) as external_id,
    case
      when side is null then 'unknown role'
      when content is null then 'no text'
      when sent_at is null or not isfinite(sent_at) then 'no time'
      when sent_at < '0001-01-01Z' or sent_at >= '10000-01-01Z' then 'no time'
      when author is null then 'no author'
      when side = 'answered' and author = user_id and author_is_bot is distinct from 'true'
        and not author = any(%(accounts)s::text[]) then 'role and author contradict each other'
      when room is null then 'no room'
      when greatest(length(room), length(author), length(message_id), length(partner)) > 255 then 'id too long'
    end as fault
  from placed
)
select
  id, platform, room, external_id, author, fault,
  to_char(sent_at at time zone 'UTC', 'YYYY-MM-DD') as day,
  case when fault is null then bool_or(is_agent) over (partition by fault is null, author) end as is_agent,
  row_number() over (partition by fault is null, room, external_id order by position) as copy
from identified
order by position;

-- name: add_columns
alter table v2_chat_history
  add column if not exists author_id text,
  add column if not exists author_is_bot boolean default false,
  add column if not exists reply_to_msg_id text;

-- name: add_author_index
create index if not exists idx_v2_chat_history_author on v2_chat_history (author_id);

-- name: add_author_bot_index
create index if not exists idx_v2_chat_history_author_bot on v2_chat_history (author_id, author_is_bot);

-- name: backfill
with characters as (
  select name, account
  from unnest(%(names)s::text[], %(accounts)s::text[]) as known (name, account)
),
waiting as (
  select
    chat.id,
    case
      when chat.role = any(%(answered)s::text[]) then coalesce(characters.account, chat.character_name::text)
      when chat.role = any(%(asked)s::text[]) and chat.user_id::text !~ '^channel_[0-9]{{1,20}}$'
        then chat.user_id::text
    end as author,
    chat.role = any(%(answered)s::text[])
      or coalesce(chat.author_is_bot, false)
      or chat.user_id::text = any(%(accounts)s::text[]) as is_bot
  from v2_chat_history as chat
  left join characters on characters.name = chat.character_name
  where
    chat.author_id is null
    or chat.author_id ~ '^channel_[0-9]{{1,20}}$'
    or (chat.role = any(%(answered)s::text[]) and chat.author_id = chat.character_name and characters.account is not null)
),
batch as (
  select id, author, is_bot
  from waiting
  where author is not null
  limit %(size)s
)
update v2_chat_history
set author_id = batch.author, author_is_bot = batch.is_bot
from batch
where v2_chat_history.id = batch.id;

-- name: unknown_authors
select count(*)
from v2_chat_history
where author_id is null or author_id ~ '^channel_[0-9]{{1,20}}$';
