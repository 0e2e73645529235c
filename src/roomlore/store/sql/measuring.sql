-- What a measurement reads beside what anybody asks: the material of plain reference methods.

-- name: worded -> Worded
-- The stems of texts and how often each occurs, as they are indexed for search, in the order of the texts.
select
  said.place,
  coalesce(array_agg(word.lexeme) filter (where word.lexeme is not null), '{}') as stems,
  coalesce(array_agg(cardinality(word.positions)) filter (where word.lexeme is not null), '{}') as counts
from unnest(%(names)s::text[], %(texts)s::text[]) with ordinality as said (name, text, place)
left join lateral unnest(
  to_tsvector('english', said.name) || to_tsvector('english', left(said.text, 100000))
) as word on true
group by said.place
order by said.place;

-- name: message_vectors -> MessageVector
-- The vectors of one model of the messages that may be read.
select said.external_id, stored.embedding
from message_embeddings as stored
join messages as said on said.org_id = stored.org_id and said.id = stored.message_id
where stored.org_id = %(org_id)s and stored.model = %(model)s;
