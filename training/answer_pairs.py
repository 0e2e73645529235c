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

import numpy as np

from roomlore.models.answer_model import (
    CONTEXT,
    CONTEXT_TOKENS,
    MESSAGE_TOKENS,
    QUESTION_TOKENS,
    author_and_text,
)
from roomlore.models.local_embedding import LocalEmbedder
from training.answer_network import RIGHT, TRICK, WRONG
from training.answer_sets import AskedLine, Excerpt
from training.encoder_layers import Array

#: Copies of a written excerpt in which the people have other names; more of an excerpt of a few short lines.
RENAMED_COPIES, SHORT_COPIES, SHORT = 3, 4, 4
#: How much a written excerpt counts: its questions are the kind that people ask in rooms.
WRITTEN_WEIGHT = 2.0
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
    #: Group, question, message, messages before, kind.
    rows: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
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
        message, *before = map(self.text, line)
        before += [_MISSING] * (CONTEXT - len(before))
        self.rows.append((group, self.text(question), message, *before, kind))


def add_excerpt(pairs: Pairs, excerpt: Excerpt, names: Sequence[str], chance: random.Random) -> None:
    """Add all pairs of an excerpt."""
    if any(not author for author, _ in excerpt.lines):
        # Texts without authors get some, so that a line always looks the same.
        speakers = chance.sample(names, chance.randint(1, 4))
        excerpt = replace(
            excerpt, lines=tuple((author or chance.choice(speakers), text) for author, text in excerpt.lines)
        )
    said = [author_and_text(author, text) for author, text in excerpt.lines]
    others = [asked.question for asked in excerpt.questions]
    for asked in excerpt.questions:
        group = pairs.group(asked.question, excerpt.corpus, excerpt.article, excerpt.weight)
        for place in range(len(said)):
            kind = RIGHT if place in asked.answers else WRONG
            pairs.add(group, asked.question, _line(said, place), kind)
        for question, line in tricks(excerpt, asked, said=said, others=others, chance=chance):
            pairs.add(group, question, line, TRICK)


def _line(said: Sequence[str], place: int) -> list[str]:
    return [said[place], *reversed(said[max(0, place - CONTEXT) : place])]


def tricks(
    excerpt: Excerpt, asked: AskedLine, *, said: Sequence[str], others: Sequence[str], chance: random.Random
) -> Iterator[tuple[str, list[str]]]:
    """Yield pairs that look right and are wrong."""
    if not asked.answers:
        return
    author, text = excerpt.lines[asked.answers[0]]
    line = _line(said, asked.answers[0])
    if excerpt.people and _mentions(asked.question, author):
        if people := [name for name in excerpt.people if name != author]:
            other = chance.choice(people)
            yield _renamed(asked.question, {author: other}), line
            yield asked.question, [author_and_text(other, text), *line[1:]]
        return
    for words, capital in ((_WORD, True), (_NUMBER, False)):
        if question := _swapped(asked.question, others, chance, words, capital=capital):
            yield question, line


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
    tokens = embedder.tokenize(list(pairs.texts))
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
        "limits": np.array([MESSAGE_TOKENS, QUESTION_TOKENS] + [CONTEXT_TOKENS] * CONTEXT),
        "lengths": np.array([len(one) for one in tokens], np.int32),
    }
