"""Conversations told in short: who says what, and what of it is to be found."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from roomlore.domain.claims import Claim, NamedParticipant, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.memories.rule_extractor import extract

START = datetime(2025, 3, 3, 9, 0, tzinfo=UTC)
TRAPS = Path(__file__).with_name("traps.jsonl")


def person(name: str) -> ParticipantId:
    return ParticipantId(uuid5(NAMESPACE_URL, f"person/{name}"))


def message(number: int) -> MessageId:
    return MessageId(uuid5(NAMESPACE_URL, f"message/{number}"))


def spoken(number: int, name: str, body: str, **more: Any) -> SourceText:
    fields = {"author_kind": "human", "kind": "message"} | more
    return SourceText(
        message_id=message(number),
        author_id=person(name),
        author_name=name,
        body=body,
        sent_at=START + timedelta(minutes=number),
        **fields,
    )


def told(*lines: tuple[str, str]) -> list[SourceText]:
    return [spoken(number, name, body) for number, (name, body) in enumerate(lines, start=1)]


def people(said: Sequence[SourceText], *others: str) -> list[NamedParticipant]:
    kinds = {one.author_name: one.author_kind for one in said}
    kinds |= {name: "agent" if name == "Scribe" else "human" for name in others if name not in kinds}
    return [NamedParticipant(id=person(name), name=name, kind=kind) for name, kind in kinds.items()]


def stated(*lines: tuple[str, str], others: Sequence[str] = ()) -> list[Claim]:
    said = told(*lines)
    return extract(said, people(said, *others))


def contents(*lines: tuple[str, str], others: Sequence[str] = ()) -> list[str]:
    return [one.content for one in stated(*lines, others=others)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A conversation by hand, and all that may be found in it."""

    id: str
    category: str
    said: Sequence[SourceText]
    people: Sequence[NamedParticipant]
    expected: Sequence[Mapping[str, Any]]

    @property
    def is_open(self) -> bool:
        """Whether the rules were written with an eye on it; the others were kept from sight."""
        return sha256(self.id.encode()).digest()[0] % 2 == 1


def cases() -> Iterator[Case]:
    with TRAPS.open(encoding="utf-8") as lines:
        yield from (_case(json.loads(line)) for line in lines)


def _case(written: Mapping[str, Any]) -> Case:
    said = [_spoken(number, one) for number, one in enumerate(written["messages"], start=1)]
    return Case(
        id=written["id"],
        category=written["category"],
        said=said,
        people=people(said, *written.get("people", ())),
        expected=written["expected"],
    )


def _spoken(number: int, written: Mapping[str, Any]) -> SourceText:
    kind = written.get("kind", "message")
    author_kind = "agent" if written.get("is_bot") else "system" if kind == "system" else "human"
    answers = message(written["answers"]) if "answers" in written else None
    return spoken(
        number, written["author"], written["text"], author_kind=author_kind, kind=kind, answers=answers
    )


def is_right(found: Claim, expected: Mapping[str, Any], case: Case) -> bool:
    """Whether a statement is one that was expected: of its kind, by and about the same, and saying so."""
    about = {person(expected.get("about", expected["author"]))}
    rests_on = {quote.message_id for quote in found.quotes}
    return (
        found.kind in _any(expected["kind"])
        and found.author_id == person(expected["author"])
        and (found.kind not in {"fact", "preference"} or found.subject_ids == about)
        and ("attribute" not in expected or found.attribute in _any(expected["attribute"]))
        and expected["must_contain"].casefold() in found.content.casefold()
        and ("tag" not in expected or expected["tag"] in found.tags)
        and (
            "rests_on_message" not in expected
            or case.said[expected["rests_on_message"] - 1].message_id in rests_on
        )
    )


def _any(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]
