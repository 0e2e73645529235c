"""Reads what the message model learns from: written messages, written rooms, and messages of public corpora."""

import gzip
import hashlib
import json
import random
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roomlore.models.message_model import (
    ACTS,
    ANSWER,
    BOT_MESSAGE,
    CONTEXT,
    EARLIER_OTHER,
    EARLIER_OWN,
    INTENTS,
    LATER,
    MESSAGE,
    QUESTION,
    RELATIONS,
    SCOPES,
    MessageInContext,
    segments_of,
)
from training import corpora
from training.written_rooms import SETS as ROOMS

SETS = Path(__file__).with_name("sets") / "messages"

#: A label that is not known.
UNKNOWN = -1
#: How much an example weighs that another task's file gives.
LENT_WEIGHT = 0.5
#: Wrong answers of a room for one right one.
WRONG_ANSWERS = 2
#: Rooms give this share of their answers; the written pairs are harder and fewer.
ROOM_ANSWERS = 0.4
#: How many messages of each corpus are read for requests that are none.
MINED = {"irc": 30_000, "sgd": 12_000, "tm4": 12_000, "topical": 15_000, "qmsum": 10_000}
#: The keys of messages in public corpora that are requests indeed.
REAL_REQUESTS: frozenset[str] = frozenset()
#: The data sets that only measure false alarms, and how many messages of each.
MEASURED = {"irc-dev": 9_000, "friendsqa-scene-dev": 3_000, "locomo-dev": 3_000, "qmsum-val": 6_000}
#: How much of the variants have other names, no punctuation, a slip of the keyboard.
RENAMED, UNPUNCTUATED, MISTYPED = 0.5, 0.4, 0.4
LONGEST_WORDS, FEWEST_CHARACTERS = 80, 2
_PUNCTUATION = re.compile(r"[.,!?;:'\"…¿¡]+")
_NAME = re.compile(r"\b[^\W\d_][\w'-]+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One text with its context, or a pair of texts, and what is known of it."""

    texts: tuple[str, ...]
    segments: tuple[int, ...]
    #: For each act 0 or 1, or UNKNOWN.
    acts: tuple[int, ...] = (UNKNOWN,) * len(ACTS)
    keep: int = UNKNOWN
    intent: int = UNKNOWN
    scope: int = UNKNOWN
    relation: int = UNKNOWN
    answer: int = UNKNOWN
    weight: float = 1.0
    author: str = ""
    lang: str = ""
    source: str = ""
    #: Names that may be exchanged.
    names: tuple[str, ...] = field(default=(), compare=False)


def authors() -> list[str]:
    """Return the names of those who wrote messages or rooms."""
    return sorted({path.name for folder in (SETS, ROOMS) for path in folder.iterdir()})


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one JSON object a line, also of a packed one."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def examples_of(author: str, held: Collection[str] = ()) -> list[Example]:
    """Return the examples of one author but those that are held: `author-1`, `messages/author-1`, `rooms/author-1`."""
    if author in held:
        return []
    messages = [] if f"messages/{author}" in held else of_messages(SETS / author)
    rooms = [] if f"rooms/{author}" in held else list(_of_rooms(author))
    return [*messages, *rooms]


def held_examples(held: Collection[str]) -> list[Example]:
    """Return the examples that are held."""
    found: list[Example] = []
    for author in authors():
        both = author in held
        found += of_messages(SETS / author) if both or f"messages/{author}" in held else []
        found += _of_rooms(author) if both or f"rooms/{author}" in held else []
    return found


def of_messages(folder: Path) -> list[Example]:
    """Return the examples of the four files of a folder."""
    found: list[Example] = []
    for kind, read in (
        ("acts", _acts),
        ("requests", _request),
        ("pairs", _pair),
        ("answers", _answer),
    ):
        path = folder / f"{kind}.jsonl"
        for one in lines(path) if path.exists() else []:
            example = read(one)
            lang = str(one.get("lang") or "en")
            found.append(replace(example, author=folder.name, lang=lang, source=kind))
    return found


def _acts(one: dict[str, Any]) -> Example:
    wanted = _known_acts(one["acts"])
    texts, segments = _in_context(one["text"], one["author"], one["before"], is_bot=bool(one.get("bot")))
    asks = "request_private" in one["acts"]
    return Example(
        texts=texts,
        segments=segments,
        acts=wanted,
        keep=int(one["keep"]),
        intent=UNKNOWN if asks else INTENTS.index("none"),
        names=_names(one["author"], *(name for name, _ in one["before"])),
    )


def _request(one: dict[str, Any]) -> Example:
    texts, segments = _in_context(one["text"], one["author"], one["before"], is_bot=False)
    return Example(
        texts=texts,
        segments=segments,
        intent=INTENTS.index(one["intent"]),
        scope=UNKNOWN if one["scope"] is None else SCOPES.index(one["scope"]),
        names=_names(one["author"], *(name for name, _ in one["before"]), *one["parties"]),
    )


def _pair(one: dict[str, Any]) -> Example:
    (earlier_author, _, earlier), (later_author, _, later) = one["earlier"], one["later"]
    own = earlier_author == later_author
    return Example(
        texts=(later, earlier),
        segments=(LATER, EARLIER_OWN if own else EARLIER_OTHER),
        relation=RELATIONS.index(one["label"]),
        names=_names(earlier_author, later_author),
    )


def _answer(one: dict[str, Any]) -> Example:
    return Example(
        texts=(one["text"], one["question"]),
        segments=(ANSWER, QUESTION),
        answer=int(one["label"]),
        names=_names(one["asker"], one["author"]),
    )


def _known_acts(acts: Iterable[str]) -> tuple[int, ...]:
    return tuple(int(act in acts) for act in ACTS)


def _names(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _in_context(
    text: str, author: str, before: Sequence[Sequence[str]], *, is_bot: bool
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the texts that are read together, the message first, and their segments."""
    nearest = list(reversed(before))[:CONTEXT]
    message = MessageInContext(
        text=text,
        is_bot=is_bot,
        before=tuple((said, name == author) for name, said in nearest),
    )
    return (text, *(said for _, said in nearest)), segments_of(message)


def _of_rooms(author: str) -> Iterator[Example]:
    for path in sorted((ROOMS / author).glob("*.jsonl")):
        room = lines(path)
        lang = _language(path)
        chance = random.Random(f"{author}/{path.name}")  # noqa: S311  not a secret
        for place, one in enumerate(room):
            count = chance.choice((0, 1, 1, CONTEXT))
            before = [(other["author"], other["text"]) for other in room[max(0, place - count) : place]]
            texts, segments = _in_context(one["text"], one["author"], before, is_bot=bool(one["bot"]))
            asks = "request_private" in one["acts"]
            yield Example(
                texts=texts,
                segments=segments,
                acts=_known_acts(one["acts"]),
                keep=int(one["keep"]),
                intent=UNKNOWN if asks else INTENTS.index("none"),
                author=author,
                lang=lang,
                source="rooms",
                names=_names(one["author"], *(name for name, _ in before)),
            )
        yield from (replace(each, author=author, lang=lang) for each in _room_answers(room, chance))


def _room_answers(room: Sequence[dict[str, Any]], chance: random.Random) -> Iterator[Example]:
    """Yield questions with a text that answers them, and with texts near by that do not."""
    by_id = {one["id"]: one for one in room}
    for place, one in enumerate(room):
        asked = by_id.get(one["answers"] or "")
        if asked is None or "answer" not in one["acts"] or "question" not in asked["acts"]:
            continue
        if chance.random() > ROOM_ANSWERS:
            continue
        others = [
            other
            for other in room[max(0, place - 8) : place + 12]
            if other["answers"] != asked["id"] and other is not asked and "answer" not in other["acts"]
        ]
        wrong = chance.sample(others, min(WRONG_ANSWERS, len(others)))
        for other, label in ((one, 1), *((other, 0) for other in wrong)):
            yield Example(
                texts=(other["text"], asked["text"]),
                segments=(ANSWER, QUESTION),
                answer=label,
                weight=LENT_WEIGHT,
                source="room answers",
                names=_names(other["author"], asked["author"]),
            )


def _language(path: Path) -> str:
    ending = path.stem.rsplit("-", 1)[-1]
    return ending if ending in {"de", "es", "fr", "pt", "id"} else "en"


# ---- public corpora


def mined(mirror: corpora.Mirror, bench: Path) -> list[Example]:
    """Return messages of public corpora, which are hardly ever requests."""
    readers = {
        "sgd": lambda: corpora.schema_guided(mirror),
        "tm4": lambda: corpora.taskmaster(mirror),
        "topical": lambda: corpora.topical_chat(mirror),
        **corpora.bench(bench),
    }
    found: list[Example] = []
    for corpus, most in MINED.items():
        conversations = [list(turns) for turns in readers[corpus]()]
        chance = random.Random(corpus)  # noqa: S311  not a secret
        chance.shuffle(conversations)
        own = [one for turns in conversations[: most // 4] for one in _unlabelled(turns, chance, corpus)]
        found += [one for one in chance.sample(own, min(most, len(own))) if key_of(one) not in REAL_REQUESTS]
    return found


def key_of(example: Example) -> str:
    """Return a short name of a text."""
    return hashlib.blake2b(example.texts[0].encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def measured(bench: Path) -> list[Example]:
    """Return messages of the data sets that only measure false alarms."""
    found: list[Example] = []
    for name, most in MEASURED.items():
        chance = random.Random(name)  # noqa: S311  not a secret
        rooms: dict[str, list[tuple[str, str]]] = {}
        for one in lines(bench / name / "messages.jsonl"):
            if not one.get("system"):
                rooms.setdefault(one["room"], []).append((one["author_name"], one["text"]))
        own = [one for turns in rooms.values() for one in _unlabelled(turns, chance, name)]
        found += chance.sample(own, min(most, len(own)))
    return found


def _unlabelled(turns: Sequence[tuple[str, str]], chance: random.Random, source: str) -> Iterator[Example]:
    told = [(name, _plain(text)) for name, text in turns]
    for place, (name, text) in enumerate(told):
        if len(text) < FEWEST_CHARACTERS or len(text.split()) > LONGEST_WORDS:
            continue
        before = told[max(0, place - chance.choice((0, 1, 2, 2))) : place]
        before = [(who, said) for who, said in before if len(said.split()) <= LONGEST_WORDS]
        texts, segments = _in_context(text, name, before, is_bot=False)
        yield Example(texts=texts, segments=segments, intent=INTENTS.index("none"), source=source, lang="en")


def _plain(text: str) -> str:
    return corpora.plain(re.sub(r"\{\w+\}", "", text or ""))


# ---- variants of examples


def varied(example: Example, pool: Sequence[str], chance: random.Random) -> Example:
    """Return an example with other names, a slip of the keyboard, or without punctuation."""
    texts = list(example.texts)
    if chance.random() < RENAMED and example.source != "rooms":
        texts = _renamed(texts, example.names, pool, chance)
    if chance.random() < UNPUNCTUATED:
        texts = [_PUNCTUATION.sub("", text) or text for text in texts]
    if chance.random() < MISTYPED:
        texts = [_mistyped(text, chance) for text in texts]
    return replace(example, texts=tuple(texts))


def without_context(example: Example) -> Example:
    """Return a message without what was said before it."""
    return replace(example, texts=example.texts[:1], segments=example.segments[:1])


def _renamed(
    texts: Sequence[str], names: Sequence[str], pool: Sequence[str], chance: random.Random
) -> list[str]:
    known = set(pool)
    present = {word for text in texts for word in _NAME.findall(text) if word in known or word in names}
    other = {name: chance.choice(pool) for name in sorted(present)}
    return [_NAME.sub(lambda found: other.get(found[0], found[0]), text) for text in texts]


def _mistyped(text: str, chance: random.Random) -> str:
    if len(text) < 8:  # noqa: PLR2004  a short text would change its meaning
        return text
    place = chance.randrange(1, len(text) - 2)
    kind = chance.randrange(3)
    if not (text[place].isalpha() and text[place + 1].isalpha()):
        return text
    if kind == 0:
        return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    if kind == 1:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place] + text[place:]


def names_of(examples: Iterable[Example]) -> list[str]:
    """Return the names of people that may stand for each other: written large, and one word."""
    names = {name for one in examples for name in one.names}
    return sorted(name for name in names if name.isalpha() and name[:1].isupper() and len(name) > 2)  # noqa: PLR2004


__all__ = [
    "BOT_MESSAGE",
    "MESSAGE",
    "Example",
    "authors",
    "examples_of",
    "lines",
    "measured",
    "mined",
    "names_of",
    "of_messages",
    "varied",
    "without_context",
]
