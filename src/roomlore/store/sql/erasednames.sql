-- The words by which erased persons were called, and where names stand besides what was said.

-- name: remember
-- Let nothing derived say these words any more.
insert into erased_names (org_id, digest, erased_at)
select %(org_id)s, unnest(%(digest)s::bytea[]), %(at)s
on conflict (org_id, digest) do nothing;

-- name: are_any -> Held
-- Whether anybody was erased by name.
select exists (select 1 from erased_names where org_id = %(org_id)s) as is_any;

-- name: among -> NameDigest
-- Those of these digests that are of words of erased names.
select digest from erased_names where org_id = %(org_id)s and digest = any (%(digest)s::bytea[]);

-- name: telling -> Word
-- Those of these words that are no small ones, such as stand in every text.
select asked.word
from unnest(%(words)s::text[]) as asked (word)
where ts_lexize('english_stem', asked.word) <> '{}';

-- name: tags_saying -> Tag
-- Tags of memories that have one of these strings in them, in any case.
select memory_tags.memory_id as id, memory_tags.tag
from memory_tags
where memory_tags.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(memory_tags.tag), lower(wanted.string)) > 0
  );

-- name: drop_tags
-- Take these tags off memories.
delete from memory_tags
using unnest(%(memory_id)s::uuid[], %(tag)s::text[]) as naming (memory_id, tag)
where memory_tags.org_id = %(org_id)s
  and memory_tags.memory_id = naming.memory_id
  and memory_tags.tag = naming.tag;

-- name: rooms_saying -> RoomText
-- Rooms of a platform with one of these strings in their name or topic, in any case.
select rooms.id, rooms.kind, rooms.name, rooms.topic
from rooms
where rooms.org_id = %(org_id)s
  and rooms.platform = %(platform)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(concat_ws(E'\n', rooms.name, rooms.topic)), lower(wanted.string)) > 0
  );

-- name: rename_rooms
-- Say anew what rooms are called and what they are for.
update rooms
set name = told.name, topic = told.topic
from unnest(%(id)s::uuid[], %(name)s::text[], %(topic)s::text[]) as told (id, name, topic)
where rooms.org_id = %(org_id)s and rooms.id = told.id;

-- name: keys_called -> KeyName
-- What keys are called that have one of these strings in their name, in any case.
select api_keys.name
from api_keys
where api_keys.org_id = %(org_id)s
  and exists (
    select 1 from unnest(%(strings)s::text[]) as wanted (string)
    where strpos(lower(api_keys.name), lower(wanted.string)) > 0
  );
