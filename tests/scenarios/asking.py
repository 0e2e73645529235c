"""Asks everything a viewer can ask, and holds every answer against the truth."""

from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from roomlore.context.render import to_anthropic, to_openai, to_text
from roomlore.domain.errors import NotFound
from roomlore.domain.records import Message, Viewer
from roomlore.search.records import SearchResult
from scenarios.town import Town
from scenarios.truth import Question, tokens

#: More than was ever said.
ALL = 1000


@dataclass(slots=True, kw_only=True)
class Tally:
    """What came of the asking."""

    #: Questions times viewers.
    pairs: int = 0
    answers: int = 0
    #: Messages that speak of what was asked and were shown.
    shown: int = 0
    #: What was shown and should not have been.
    violations: list[str] = field(default_factory=list)
    #: What should have been shown and was not.
    withheld: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.pairs} questions x viewers, {self.answers} answers, {self.shown} messages shown, "
            f"{len(self.violations)} violations, {len(self.withheld)} withheld"
        )


@dataclass(slots=True, kw_only=True)
class Asking:
    """One viewer in one chapter: what they may be shown, and what they are."""

    town: Town
    name: str
    tally: Tally
    viewer: Viewer = field(init=False)
    heard: set[str] = field(init=False)
    places: set[str] = field(init=False)
    counted: set[str] = field(init=False)
    _surveyed: set[str] = field(default_factory=set)
    _telling: set[str] = field(init=False)
    _allowed: set[str] = field(init=False)

    def __post_init__(self) -> None:
        truth, chapter = self.town.truth, self.town.chapter
        self.viewer = self.town.viewers[self.name]
        self.heard = truth.heard_of(self.name, chapter)
        self.places = truth.places(self.name, chapter)
        self.counted = truth.counted(self.name, chapter)
        ids, recalled = self.town.ids, truth.recalls(self.name, chapter)
        self._telling = truth.telling_words | set(ids.values())
        self._allowed = truth.allowed_words(self.name, chapter) | {ids[key] for key in self.places | recalled}

    # What depends on the question

    async def by_words(self, question: Question) -> None:
        """Search by the words of a question alone, which finds what speaks of it and nothing else."""
        self.tally.pairs += 1
        what, wanted = f"the words of question {question.number}", question.about & self.heard
        found = self._searched(await self.town.wordwise.search(self.viewer, question.text, limit=ALL), what)
        self._compare(found, wanted, what)
        self.tally.shown += len(found & wanted)

    async def everywhere(self, question: Question) -> None:
        """Search and ask in all rooms."""
        what = f"question {question.number}"
        found = self._searched(await self.town.app.search(self.viewer, question.text, limit=ALL), what)
        # Nearness orders and leaves nothing out: whatever was said to the viewer is there.
        self._compare(found, self.heard & self.town.truth.said, what)
        await self._ask(question, room=None)

    async def around(self, question: Question, messages: Sequence[str]) -> None:
        """Search and ask in the rooms of some messages, and read what surrounds these."""
        for room in sorted({self._room_of(message) for message in messages}):
            await self._search_in(question, room)
            await self._ask(question, room=room)
        # What surrounds a message does not depend on the question.
        for message in set(messages) - self._surveyed:
            await self._context(message)
        self._surveyed.update(messages)

    async def _search_in(self, question: Question, room: str) -> None:
        what = f"question {question.number} in {room}"
        for app in (self.town.app, self.town.wordwise):
            found = await self._or_nothing(
                app.search(self.viewer, question.text, room=room, private=True, limit=ALL), room, what
            )
            if found is None:
                continue
            shown = self._searched(found, what)
            here = {
                message for message in self.heard & self.town.truth.said if self._room_of(message) == room
            }
            self._compare(shown, here & question.about if app is self.town.wordwise else here, what)

    async def _ask(self, question: Question, *, room: str | None) -> None:
        what = f"the answer to question {question.number} in {room}"
        answer = await self._or_nothing(
            self.town.app.ask(self.viewer, question.text, room=room, private=True), room, what
        )
        if answer is None:
            return
        self._check(answer, what)
        for step in answer.trace:
            if step.candidates > len(self.heard):
                self._violated(f"{step.candidates} candidates", what)

    def _searched(self, found: SearchResult, what: str) -> set[str]:
        """Return the messages that a search found, after a look at the whole answer."""
        self._check(found, what)
        if any(hit.omitted for hit in found.hits):
            self._violated("a number of messages left out", what)
        self._among_places((message for hit in found.hits for message in hit.messages), what)
        return {
            message.external_id for hit in found.hits for message in hit.messages if message.id in hit.why
        }

    async def _context(self, trigger: str) -> None:
        """Read what surrounds a message, in every form in which a context is written down."""
        room, what = self._room_of(trigger), f"the context of {trigger}"
        reading = self.town.app.context(self.viewer, room, trigger, private=True)
        built = await self._or_nothing(reading, room, what, message=trigger)
        if built is None:
            return
        for answer in (built, built.explain(), to_text(built), to_openai(built), to_anthropic(built)):
            self._check(answer, what)
        told = [line.message for line in built.lines]
        self._among_places([*told, *(item.message for item in built.omitted)], what)
        self._missing({trigger} - {message.external_id for message in told}, what)

    # What does not

    async def everything_else(self, *, rooms: Collection[str], memories: Collection[str]) -> None:
        """Read lists and counts, all that stands in some rooms, and what some memories rest on."""
        await self._rooms()
        await self._people()
        for room in rooms:
            await self._messages(room)
        await self._memories(memories)

    async def _rooms(self) -> None:
        truth, chapter = self.town.truth, self.town.chapter
        found = await self.town.app.rooms(self.viewer)
        self._check(found, "the rooms")
        known = {room for room in truth.rooms if truth.knows_room(self.name, room, chapter)}
        self._compare({room.external_id for room in found}, known, "the rooms")
        for room in found:
            there = sum(self._room_of(message) == room.external_id for message in self.counted)
            self._count(room.message_count, there, f"the messages of {room.external_id}")

    async def _people(self) -> None:
        found = await self.town.app.participants(self.viewer)
        self._check(found, "the participants")
        written = sum(participant.message_count for participant in found)
        self._count(written, len(self.counted), "what participants wrote")

    async def _messages(self, room: str) -> None:
        what = f"the room {room}"
        found = await self._or_nothing(self.town.app.messages(self.viewer, room, limit=ALL), room, what)
        if found is None:
            return
        self._check(found, what)
        self._compare(
            {message.external_id for message in found},
            {message for message in self.places if self._room_of(message) == room},
            what,
        )
        self._verbatim(found, what)

    def _verbatim(self, found: Iterable[Message], what: str) -> None:
        for message in found:
            told = (message.author_name, message.body)
            if told != self.town.truth.verbatim(message.external_id, self.town.chapter):
                self._violated(f"{told} as {message.external_id}", what)

    async def _memories(self, some: Collection[str]) -> None:
        found = await self.town.app.memories.all(self.viewer, limit=ALL)
        self._check(found, "the memories")
        names = {id_: name for name, id_ in self.town.ids.items()}
        recalled = self.town.truth.recalls(self.name, self.town.chapter)
        asserted = {names[str(memory.id)] for memory in found if memory.extractor is None}
        self._compare(asserted, recalled, "the memories")
        await self._drawn(memory.id for memory in found if memory.extractor is not None)
        for memory in some:
            if memory in self.town.ids:
                await self._why(memory, may=memory in recalled)

    async def _drawn(self, ids: Iterable[UUID]) -> None:
        """Look at what was drawn from the story: it rests on what the viewer heard."""
        heard = self.town.truth.heard_of(self.name, self.town.chapter)
        for memory in ids:
            told = await self.town.app.memories.provenance(self.viewer, str(memory))
            what = f"why {told.memory.content!r}"
            self._check(told, what)
            for source in told.sources:
                if source.message.external_id not in heard:
                    self._violated(source.message.external_id, what)

    async def _why(self, memory: str, *, may: bool) -> None:
        what, id_ = f"why {memory}", self.town.ids[memory]
        try:
            told = await self.town.app.memories.provenance(self.viewer, id_)
        except NotFound as refusal:
            self._refused(refusal, f"no memory {id_!r}", what, may=may)
            return
        self._check(told, what)
        sources = {source.message.external_id for source in told.sources}
        self._compare(sources, set(self.town.truth.memories[memory].sources), what)

    # How an answer is judged

    async def _or_nothing(
        self, answer: Awaitable[Any], room: str | None, what: str, *, message: str | None = None
    ) -> Any:
        """Return an answer, or None where the viewer was told that there is no such room or message."""
        truth, chapter = self.town.truth, self.town.chapter
        knows = room is None or truth.knows_room(self.name, room, chapter)
        words = f"no message {message!r}" if knows else f"no room {room!r}"
        may = knows and (message is None or message in self.places)
        try:
            return await answer
        except NotFound as refusal:
            self._refused(refusal, words, what, may=may)
            return None

    def _refused(self, refusal: NotFound, words: str, what: str, *, may: bool) -> None:
        """Judge a refusal, which must not tell what there is from what there is not."""
        self.tally.answers += 1
        if may:
            self._missing([str(refusal)], what)
        elif str(refusal) != words:
            self._violated(str(refusal), what)

    def _check(self, answer: object, what: str) -> None:
        """Look at a whole answer as it is written out for words and ids that the viewer may not be shown."""
        self.tally.answers += 1
        for word in sorted((tokens(repr(answer)) & self._telling) - self._allowed):
            self._violated(word, what)

    def _among_places(self, messages: Iterable[Message], what: str) -> None:
        for message in messages:
            if message.external_id not in self.places:
                self._violated(message.external_id, what)

    def _compare(self, found: set[str], wanted: Collection[str], what: str) -> None:
        for name in sorted(found - set(wanted)):
            self._violated(name, what)
        self._missing(sorted(set(wanted) - found), what)

    def _count(self, found: int, there: int, what: str) -> None:
        if found > there:
            self._violated(f"{found} instead of {there}", what)
        elif found < there:
            self._missing([f"{found} instead of {there}"], what)

    def _violated(self, shown: str, what: str) -> None:
        self.tally.violations.append(f"chapter {self.town.chapter}: {self.name} is shown {shown} by {what}")

    def _missing(self, names: Iterable[str], what: str) -> None:
        self.tally.withheld += [
            f"chapter {self.town.chapter}: {self.name} is not shown {name} by {what}" for name in names
        ]

    def _room_of(self, message: str) -> str:
        return self.town.truth.room_of[message]
