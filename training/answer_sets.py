"""Reads what the answer model learns from: questions about excerpts of chats and texts, each with the lines that answer it.

Public corpora come from MIRROR (see `corpora.py`); a corpus that is missing there is left out.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import message_sets
from training.corpora import Mirror, Turns, plain
from training.written_rooms import SETS as ROOMS

WRITTEN = Path(__file__).with_name("sets") / "questions"
#: Lines of one excerpt of a corpus without excerpts of its own.
EXCERPT = 12
#: The shortest text that is a sentence, in characters.
SENTENCE = 12
#: How much a question counts that is made by rule.
SAID_WEIGHT = 0.6
_TERM_FORMS = (
    "what did {author} say about {term}?",
    "{author} {term}",
    "did {author} mention {term}",
    "What does {author} think of {term}?",
    "has {author} said anything about {term}?",
    "{author} on {term}?",
    "When did {author} talk about {term}?",
    "why did {author} bring up {term}?",
)
_WHO_FORMS = (
    "who mentioned {term}?",
    "Who said something about {term}",
    "who talked about {term}?",
    "who brought up {term}?",
)
_CLAUSE_FORMS = (
    "Did {author} say they {clause}?",
    "when did {author} say that they {clause}?",
    "is it {author} who said they {clause}",
    "Is it true that {author} said they {clause}?",
    "who said they {clause}?",
)
_OWN_CLAUSE = re.compile(r"\b[Ii] ((?:[a-z']+ ){2,7}[a-z']+)")
_THIRD_PERSON = {
    "my": "their",
    "me": "them",
    "i": "they",
    "am": "are",
    "mine": "theirs",
    "i'm": "they're",
    "myself": "themself",
}
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")
_BLANKS = re.compile(r"\s+")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-z]|\d|[\"'(])")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLine:
    """A question about an excerpt."""

    question: str
    #: The places of the lines that answer it; empty if none does.
    answers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Lines of one chat or text in their order, with questions about them."""

    corpus: str
    #: Author (empty if the corpus has none) and text.
    lines: tuple[tuple[str, str], ...]
    questions: tuple[AskedLine, ...]
    #: The part of the corpus that may not give wrong answers to this excerpt, because it is about the same things.
    article: str = ""
    #: How much the questions count.
    weight: float = 1.0
    #: The names of people who speak, for exchanges of names.
    people: tuple[str, ...] = ()


def written(author: str) -> Iterator[Excerpt]:
    """Questions about chats, written for this project."""
    path = WRITTEN / author / "questions.jsonl"
    for number, one in enumerate(message_sets.lines(path) if path.exists() else []):
        lines = tuple((message["author"], message["text"]) for message in one["messages"])
        yield Excerpt(
            corpus="written",
            lines=lines,
            questions=tuple(
                AskedLine(question=asked["question"], answers=tuple(asked["answers"]))
                for asked in one["questions"]
            ),
            article=f"{author}/{number}",
            people=_people(lines),
        )


def written_pairs(author: str) -> Iterator[Excerpt]:
    """Questions with one text each that answers them or does not, written for this project."""
    path = message_sets.SETS / author / "answers.jsonl"
    for number, one in enumerate(message_sets.lines(path) if path.exists() else []):
        lines = ((one["author"], one["text"]),)
        asked = AskedLine(question=one["question"], answers=(0,) if one["label"] else ())
        yield Excerpt(
            corpus="written pairs",
            lines=lines,
            questions=(asked,),
            article=f"{author}/{number}",
            people=_people(lines),
        )


def written_rooms(author: str) -> Iterator[Excerpt]:
    """Questions in written rooms, with the messages that answer them."""
    for path in sorted((ROOMS / author).glob("*.jsonl")):
        room = message_sets.lines(path)
        for start in range(0, len(room), EXCERPT):
            part = room[start : start + 2 * EXCERPT]
            asked = [
                AskedLine(question=one["text"], answers=found)
                for one in part[:EXCERPT]
                if "question" in one["acts"] and (found := _answers_in(part, one["id"]))
            ]
            if asked:
                yield Excerpt(
                    corpus="rooms",
                    lines=tuple((one["author"], one["text"]) for one in part),
                    questions=tuple(asked),
                    article=f"{author}/{path.stem}",
                    weight=0.5,
                )


def _answers_in(part: Sequence[dict[str, Any]], asked: str) -> tuple[int, ...]:
    return tuple(
        place for place, one in enumerate(part) if one["answers"] == asked and "answer" in one["acts"]
    )


def qamr(mirror: Mirror) -> Iterator[Excerpt]:
    """QAMR (MIT): questions about single sentences of encyclopedia and news."""
    sentences: dict[str, dict[str, str]] = defaultdict(dict)
    for row in mirror.read("uwnlp/qamr", "data/wiki-sentences.tsv").splitlines():
        key, _, text = row.partition("\t")
        sentences[":".join(key.split(":")[:3])][key] = _without_brackets(text)
    asked: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
    for part in ("dev", "test"):
        for row in mirror.read("uwnlp/qamr", f"data/filtered/{part}.tsv").splitlines():
            key, *_, question = row.split("\t")[:6]
            asked[":".join(key.split(":")[:3])][key, question] = None
    for article, found in asked.items():
        keys = sorted(sentences[article], key=lambda key: [int(part) for part in key.split(":")[2:]])
        for start in range(0, len(keys), EXCERPT):
            part = keys[start : start + EXCERPT]
            yield Excerpt(
                corpus="qamr",
                lines=tuple(("", sentences[article][key]) for key in part),
                questions=tuple(
                    AskedLine(question=question, answers=(part.index(key),))
                    for key, question in found
                    if key in part
                ),
                article=article,
            )


def squad_sentences(mirror: Mirror) -> Iterator[Excerpt]:
    """Questions of SQuAD (CC BY-SA 4.0) with the sentence that answers each, as Du et al. 2017 published them."""
    for part in ("dev", "test"):
        read = [
            mirror.read("xinyadu/nqg", f"data/processed/{name}-{part}.txt").splitlines()
            for name in ("src", "tgt")
        ]
        places: dict[str, int] = {}
        asked: list[AskedLine] = []
        number = 0
        for sentence, question in [*zip(*read, strict=True), ("", "")]:
            text = _without_brackets(sentence)
            if places and (not text or (len(places) == EXCERPT and text not in places)):
                yield Excerpt(
                    corpus="squad",
                    lines=tuple(("", line) for line in places),
                    questions=tuple(asked),
                    article=f"{part}/{number}",
                )
                places, asked, number = {}, [], number + 1
            place = places.setdefault(text, len(places))
            asked.append(AskedLine(question=_without_brackets(question), answers=(place,)))


def xquad(mirror: Mirror) -> Iterator[Excerpt]:
    """XQuAD (CC BY-SA 4.0): the same paragraphs and questions in several languages."""
    for lang in ("en", "de", "es"):
        text = mirror.read("google-deepmind/xquad", f"xquad.{lang}.json")
        for number, article in enumerate(json.loads(text)["data"] if text else []):
            for paragraph in article["paragraphs"]:
                sentences = _sentences(paragraph["context"])
                yield Excerpt(
                    corpus="xquad",
                    lines=tuple(("", line) for _, line in sentences),
                    questions=tuple(
                        AskedLine(
                            question=asked["question"],
                            answers=(_place_of(asked["answers"][0]["answer_start"], sentences),),
                        )
                        for asked in paragraph["qas"]
                    ),
                    article=str(number),
                )


def selqa(mirror: Mirror) -> Iterator[Excerpt]:
    """SelQA (Apache-2.0): questions with the sentences of a section; some answer."""
    for part in ("dev", "test"):
        text = mirror.read("emorynlp/selqa", f"ass/selqa-ass-{part}.json")
        for one in json.loads(text) if text else []:
            yield Excerpt(
                corpus="selqa",
                lines=tuple(("", plain(line)) for line in one["candidates"]),
                questions=(AskedLine(question=one["question"], answers=tuple(one["answers"])),),
                article=one["article"],
            )


def molweni(mirror: Mirror) -> Iterator[Excerpt]:
    """Molweni (Apache-2.0): questions about Ubuntu chat; some have no answer there."""
    text = mirror.read("HIT-SCIR/Molweni", "MRC(withDiscourse)/test.json")
    for number, dialogue in enumerate(json.loads(text)["data"]["dialogues"] if text else []):
        lines = tuple((edu["speaker"], plain(edu["text"])) for edu in dialogue["edus"])
        ends: list[int] = []
        for edu in dialogue["edus"]:
            ends.append((ends[-1] + 1 if ends else 0) + len(edu["speaker"]) + 2 + len(edu["text"]))
        asked: list[AskedLine] = []
        for one in dialogue["qas"]:
            starts = [] if one["is_impossible"] else [answer["answer_start"] for answer in one["answers"]]
            places = {next((place for place, end in enumerate(ends) if start < end), -1) for start in starts}
            if -1 not in places:
                asked.append(AskedLine(question=plain(one["question"]), answers=tuple(sorted(places))))
        yield Excerpt(
            corpus="molweni",
            lines=lines,
            questions=tuple(asked),
            article=str(number),
            people=_people(lines),
        )


def who_said(
    corpus: str, conversations: Iterable[Turns], names: Sequence[str], most: int
) -> Iterator[Excerpt]:
    """Questions, made by rule, about who said something and what somebody said: attribution, not content.

    Speakers without a name get one of `names`.
    """
    chance = random.Random(corpus)  # noqa: S311  not a secret
    found = [list(turns) for turns in conversations]
    chance.shuffle(found)
    count = 0
    for number, turns in enumerate(found):
        if count >= most:
            return
        lines = [(author, _BLANKS.sub(" ", text).strip()) for author, text in turns if text.strip()]
        start = chance.randint(0, max(0, len(lines) - EXCERPT))
        lines = _named(lines[start : start + EXCERPT], names, chance)
        asked = [one for place in range(len(lines)) if (one := _said_by(lines, place, chance)) is not None]
        if asked:
            chosen = chance.sample(asked, min(len(asked), 4))
            count += len(chosen)
            yield Excerpt(
                corpus=corpus,
                lines=tuple(lines),
                questions=tuple(chosen),
                article=str(number),
                people=_people(lines),
                weight=SAID_WEIGHT,
            )


def _named(
    lines: Sequence[tuple[str, str]], names: Sequence[str], chance: random.Random
) -> list[tuple[str, str]]:
    """Return lines in which speakers have names. A speaker that is only a role or a number has none."""
    speakers = list(dict.fromkeys(author for author, _ in lines))
    given = chance.sample(names, len(speakers))
    roles = ("user", "system", "agent_1", "agent_2", "assistant", "")
    new = {
        speaker: given[place] if speaker.lower() in roles else speaker
        for place, speaker in enumerate(speakers)
    }
    return [(new[author], text) for author, text in lines]


def _said_by(lines: Sequence[tuple[str, str]], place: int, chance: random.Random) -> AskedLine | None:
    """Return a question that only what is said at a place answers, or what its author says elsewhere."""
    author, text = lines[place]
    clause = _OWN_CLAUSE.search(text)
    if clause is not None and chance.random() < 0.5:  # noqa: PLR2004  half of the questions
        told = " ".join(_THIRD_PERSON.get(word, word) for word in clause[1].lower().split())
        form = chance.choice(_CLAUSE_FORMS)
        return AskedLine(question=form.format(author=author, clause=told), answers=(place,))
    words = {word.lower() for word in _LONG_WORD.findall(text)}
    elsewhere = [{word.lower() for word in _LONG_WORD.findall(other)} for _, other in lines]
    once = sorted(word for word in words if sum(word in other for other in elsewhere) <= 2)  # noqa: PLR2004
    if not once:
        return None
    term = max(chance.sample(once, min(3, len(once))), key=len)
    has = [number for number, other in enumerate(elsewhere) if term in other]
    if chance.random() < 0.3:  # noqa: PLR2004  fewer, because an author cannot be wrong there
        return AskedLine(question=chance.choice(_WHO_FORMS).format(term=term), answers=tuple(has))
    own = tuple(number for number in has if lines[number][0] == author)
    return AskedLine(question=chance.choice(_TERM_FORMS).format(author=author, term=term), answers=own)


def public(mirror: Mirror) -> Iterator[Excerpt]:
    """Return the excerpts of all public corpora."""
    for read in (qamr, squad_sentences, xquad, selqa, molweni):
        yield from read(mirror)


def _people(lines: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(author for author, _ in lines if author))


def _sentences(text: str) -> list[tuple[int, str]]:
    """Return the sentences of a text with their places."""
    found: list[tuple[int, str]] = []
    start = 0
    for end in [*(match.start() for match in _END_OF_SENTENCE.finditer(text)), len(text)]:
        if end - start >= SENTENCE or end == len(text):
            found.append((start, text[start:end].strip()))
            start = end
    return [(place, line) for place, line in found if line] or [(0, text)]


def _place_of(start: int, sentences: Sequence[tuple[int, str]]) -> int:
    return max(place for place, (begin, _) in enumerate(sentences) if begin <= start or place == 0)


def _without_brackets(text: str) -> str:
    """Return a tokenised text of a treebank as usual text."""
    for mark, usual in (
        ("-lrb-", "("),
        ("-rrb-", ")"),
        ("-LRB-", "("),
        ("-RRB-", ")"),
        ("``", '"'),
        ("''", '"'),
    ):
        text = text.replace(mark, usual)
    return plain(text)
