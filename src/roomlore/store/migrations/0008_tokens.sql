-- The vectors of a message's tokens, beside the one of the whole message and gone with it.

alter table message_embeddings
  -- the signs of each token's vector, 48 bytes for each token; null: made when there were none to have, or by a model
  -- that gives none. What is written is never shorter than 1,248 bytes, filled up with zeros, for only a row of more
  -- than 2,000 is split: so it always lies outside, and a scan of vectors reads no more than before.
  add column tokens bytea;

-- signs do not compress
alter table message_embeddings alter column tokens set storage external;

-- The token vectors of messages that the viewer may read. Runs as the owner because the policy would ask its rule
-- row by row in a function of its own, which takes several times longer.
create function token_vectors(wanted_model text, message_ids uuid[])
  returns table (message_id uuid, tokens bytea)
  language sql stable security definer set search_path = roomlore, pg_temp
as $$
  select readable.id, vectors.tokens
  from unnest(message_ids) as asked (id)
  cross join lateral (
    select said.id
    from readable_messages as said
    where said.id = asked.id and said.redacted_at is null
    limit 1
  ) as readable
  cross join lateral (
    select held.tokens
    from message_embeddings as held
    where held.org_id = current_org()
      and held.message_id = readable.id
      and held.model = wanted_model
      and held.tokens is not null
    limit 1
  ) as vectors
$$;

revoke execute on function token_vectors(text, uuid[]) from public;
grant execute on function token_vectors(text, uuid[]) to roomlore_app;
