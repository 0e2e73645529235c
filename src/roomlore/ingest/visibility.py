"""Decides who may read each room of an export, and reports the basis."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMessage, IncomingRoom, RoomKind, Visibility
from roomlore.domain.room_visibility import DIRECT_KINDS, UNKNOWN_KIND, visibility_of

#: Platform and external id.
RoomName = tuple[str, str]
#: Asks a person who may read a room if only the room's name suggests that it is private.
AskVisibility = Callable[[IncomingRoom], Visibility]
#: The basis of a visibility: stated by the export, assumed, set by the importing person, or already stored.
VisibilityBasis = Literal["export", "assumed", "chosen", "before"]
#: The number of rooms named in an error.
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityOptions:
    """The importing person's options for visibility."""

    #: Names or ids of closed rooms, or names of categories.
    members: frozenset[str] = frozenset()
    #: Names or ids of open rooms.
    open: frozenset[str] = frozenset()
    #: For rooms without a stated visibility. None means that the names of the rooms decide.
    assume: Visibility | None = None
    #: Called for new rooms whose names suggest a private room.
    ask: AskVisibility | None = None
    #: The server, workspace or network of rooms that name none.
    workspace: str = ""

    @property
    def names(self) -> frozenset[str]:
        """All words that name rooms."""
        return self.members | self.open


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRoom:
    """A room of an export, its visibility and the basis."""

    platform: str
    external_id: str
    workspace: str
    name: str
    kind: RoomKind
    messages: int
    audience: Visibility
    rests_on: VisibilityBasis
    #: A short reason.
    why: str


class ExistingRooms(Protocol):
    """The rooms that are already stored."""

    async def visibilities(self, names: Sequence[RoomName]) -> Mapping[RoomName, Visibility]:
        """Return the visibility of the given rooms that exist."""
        ...

    async def close(self, names: Sequence[RoomName]) -> None:
        """Close rooms."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    room: IncomingRoom
    audience: Visibility
    rests_on: VisibilityBasis
    why: str


@dataclass(slots=True, kw_only=True)
class VisibilityResolver:
    """Decides the visibility of each room at its first occurrence."""

    options: VisibilityOptions
    #: None means a dry run.
    stored: ExistingRooms | None
    _stored_visibility: dict[RoomName, Visibility | None] = field(
        default_factory=dict[RoomName, Visibility | None]
    )
    _answers: dict[RoomName, Visibility] = field(default_factory=dict[RoomName, Visibility])
    _decisions: dict[RoomName, _Decision] = field(default_factory=dict[RoomName, _Decision])
    _counts: Counter[RoomName] = field(default_factory=Counter[RoomName])

    async def resolve(self, batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Return messages whose rooms have the decided visibility."""
        rooms = {id(message.room): (message.platform, message.room) for message in batch}
        await self._load_stored(rooms.values())
        made = {key: self._decide(platform, room) for key, (platform, room) in rooms.items()}
        self._counts.update((message.platform, message.room.external_id) for message in batch)
        return [
            message
            if made[id(message.room)] is message.room
            else replace(message, room=made[id(message.room)])
            for message in batch
        ]

    async def report(self) -> list[ImportedRoom]:
        """Return the rooms found so far, in order, with their visibility."""
        names = list(self._decisions)
        now: Mapping[RoomName, Visibility] = await self.stored.visibilities(names) if self.stored else {}
        return [self._report_room(name, now.get(name)) for name in names]

    async def _load_stored(self, rooms: Iterable[tuple[str, IncomingRoom]]) -> None:
        new = {(platform, room.external_id): room for platform, room in rooms}
        new = {name: room for name, room in new.items() if name not in self._stored_visibility}
        asked = self.stored if new else None
        known: Mapping[RoomName, Visibility] = await asked.visibilities(list(new)) if asked else {}
        self._stored_visibility.update({name: known.get(name) for name in new})
        closing = [
            name
            for name, room in new.items()
            if known.get(name) == "open" and _is_named(room, self.options.members, category=True)
        ]
        if self.stored and closing:
            await self.stored.close(closing)

    def _decide(self, platform: str, room: IncomingRoom) -> IncomingRoom:
        if self.options.workspace and not room.workspace and room.kind not in DIRECT_KINDS:
            room = replace(room, workspace=self.options.workspace)
        name = (platform, room.external_id)
        decided = self._chosen_by_option(name, room) or self._from_export(room)
        known = self._decisions.get(name)
        # If a room has several descriptions, the narrowest one wins.
        if known is None or known.audience == "open" or decided.audience == "members":
            self._decisions[name] = decided
        return decided.room

    def _chosen_by_option(self, name: RoomName, room: IncomingRoom) -> _Decision | None:
        """Return the importing person's choice for a room; None if there is none."""
        if room.kind in DIRECT_KINDS:
            return None
        if _is_named(room, self.options.open):
            return _with_visibility(room, "open", "chosen", "named to be open")
        if _is_named(room, self.options.members, category=True):
            return _with_visibility(room, "members", "chosen", "named to be for its members")
        if visibility_of(room).basis == "stated":
            return None
        if self.options.assume == "members" or (self.options.assume == "open" and room.kind is not None):
            return _with_visibility(room, self.options.assume, "assumed", "said of all that do not tell")
        return self._chosen_by_person(name, room)

    def _chosen_by_person(self, name: RoomName, room: IncomingRoom) -> _Decision | None:
        """Return the person's answer about a new room whose name suggests a private room."""
        is_doubtful = visibility_of(room).visibility == "members" and room.kind is not None
        if (
            not is_doubtful
            or self._stored_visibility[name] is not None
            or self.options.ask is None
            or self.stored is None
        ):
            return None
        if name not in self._answers:
            self._answers[name] = self.options.ask(room)
        return _with_visibility(room, self._answers[name], "chosen", "answered when asked")

    @staticmethod
    def _from_export(room: IncomingRoom) -> _Decision:
        found = visibility_of(room)
        rests_on: VisibilityBasis = "export" if found.basis == "stated" else "assumed"
        return _Decision(room=room, audience=found.visibility, rests_on=rests_on, why=found.why)

    def _report_room(self, name: RoomName, now: Visibility | None) -> ImportedRoom:
        decided, before = self._decisions[name], self._stored_visibility[name]
        rests_on, why = decided.rests_on, decided.why
        if now is not None and before is not None:
            rests_on, why = _basis_of_stored(decided, before=before, now=now)
        elif now is None and self.stored is not None:
            rests_on, why = "before", "it was erased, and stays out"
        return ImportedRoom(
            platform=name[0],
            external_id=name[1],
            workspace=decided.room.workspace,
            name=decided.room.name,
            kind=decided.room.kind or UNKNOWN_KIND,
            messages=self._counts[name],
            audience=now or decided.audience,
            rests_on=rests_on,
            why=why,
        )


def _with_visibility(
    room: IncomingRoom, audience: Visibility, rests_on: VisibilityBasis, why: str
) -> _Decision:
    return _Decision(
        room=room if room.visibility == audience else replace(room, visibility=audience),
        audience=audience,
        rests_on=rests_on,
        why=why,
    )


def _basis_of_stored(
    decided: _Decision, *, before: Visibility, now: Visibility
) -> tuple[VisibilityBasis, str]:
    """Return the basis of the visibility of a room that was already stored, and a short reason."""
    if before != now:
        return decided.rests_on, f"closed now: {decided.why}"
    if decided.audience == now and decided.rests_on != "assumed":
        return decided.rests_on, decided.why
    if now == "members" and decided.audience == "open":
        return "before", "an import opens nothing closed"
    return "before", "as it was before"


def _is_named(room: IncomingRoom, words: frozenset[str], *, category: bool = False) -> bool:
    if not words:
        return False
    names = {room.name, room.external_id, f"{room.workspace}/{room.name}"}
    names |= {room.category} - {""} if category else set[str]()
    return not {_normalised(name) for name in names}.isdisjoint(_normalised(word) for word in words)


def _normalised(name: str) -> str:
    return name.strip().removeprefix("#").casefold()


def check_room_names(options: VisibilityOptions, rooms: Sequence[IncomingRoom]) -> None:
    """Raise BadInput if a word names no room, should open several rooms or a direct room, or is in both lists."""
    both = {_normalised(word) for word in options.members} & {_normalised(word) for word in options.open}
    for word in sorted(both):
        raise BadInput(f"room {word!r}", "cannot be both open and for its members")
    for word in sorted(options.names):
        one = frozenset({word})
        found = [room for room in rooms if _is_named(room, one, category=word in options.members)]
        if not found:
            raise BadInput(f"room {word!r}", f"is not in what is imported; there are {_room_list(rooms)}")
        if word in options.open:
            _check_openable(word, found)


def _check_openable(word: str, found: Sequence[IncomingRoom]) -> None:
    if len({room.external_id for room in found}) > 1:
        raise BadInput(f"room {word!r}", f"is ambiguous; name one by its id: {_room_list(found)}")
    if found[0].kind in DIRECT_KINDS:
        raise BadInput(f"room {word!r}", "is a direct room, which is never open")


def _room_list(rooms: Sequence[IncomingRoom]) -> str:
    names = sorted({f"{qualified_name(room)} ({room.external_id})" for room in rooms})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "no rooms") + more


def qualified_name(room: IncomingRoom) -> str:
    """Return the room's name with its workspace, as references write it."""
    return f"{room.workspace}/{room.name}" if room.workspace else room.name
