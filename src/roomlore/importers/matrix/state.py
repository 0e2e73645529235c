"""Derives the description of a Matrix room from its state: name, topic, readers, members and their names."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise

from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingRoom, RoomKind, Visibility
from roomlore.importers.reading.fields import (
    MAX_ID,
    Fields,
    MalformedRecord,
    first_text,
    integer_field,
    object_field,
    unix_time,
)

#: State whose newest value describes the room, with the key of the value.
_DESCRIBED = {
    "m.room.name": "name",
    "m.room.topic": "topic",
    "m.room.canonical_alias": "alias",
    "m.room.join_rules": "join_rule",
    "m.room.history_visibility": "history_visibility",
}
#: History that a public room shows to everybody.
_SHARED_HISTORY = frozenset({"shared", "world_readable"})
#: History that begins with the invitation or the join of its reader.
_MEMBERS_HISTORY = frozenset({"invited", "joined"})
_GONE = frozenset({"leave", "ban"})
_SIDES = 2
_MEMBER_TEXTS = {
    "join": "joined the room",
    "ban": "banned {member}",
    "invite": "invited {member}",
    "knock": "asked to join the room",
}
#: What a leave means, by the membership before.
_OWN_LEAVE = {"join": "left the room", "invite": "declined the invitation"}
_FOREIGN_LEAVE = {
    "join": "removed {member}",
    "invite": "withdrew the invitation of {member}",
    "ban": "unbanned {member}",
}
_INSTANT = timedelta(microseconds=1)


def event_time(fields: Fields) -> datetime:
    """Return the time of an event. Raises MalformedRecord if it has none."""
    milliseconds = integer_field(fields, "origin_server_ts")
    if milliseconds is None or milliseconds < 0:
        raise MalformedRecord("no time")
    return unix_time(milliseconds // 1000, microseconds=milliseconds % 1000 * 1000)


def previous_content(fields: Fields) -> Fields:
    """Return the content of the state that an event replaces; empty if it is not stated."""
    return object_field(object_field(fields, "unsigned"), "prev_content") or object_field(
        fields, "prev_content"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """A change of a membership."""

    at: datetime
    membership: str
    #: The membership before; empty if it is not stated.
    previous: str


@dataclass(slots=True)
class RoomFacts:
    """The state of a room, collected in any order."""

    #: The newest value of each described state, with its time.
    described: dict[str, tuple[datetime, str]] = field(default_factory=dict[str, tuple[datetime, str]])
    changes: dict[str, list[MemberEvent]] = field(default_factory=dict[str, list[MemberEvent]])
    names: dict[str, list[tuple[datetime, str]]] = field(
        default_factory=dict[str, list[tuple[datetime, str]]]
    )
    #: The time of the first message of each sender.
    spoke: dict[str, datetime] = field(default_factory=dict[str, datetime])
    is_created: bool = False
    is_direct: bool = False
    #: The stated number of members, 0 if it is not stated.
    member_count: int = 0
    #: The name and topic in the head of an export. The state comes first.
    heading: tuple[str, str] = ("", "")

    def note_message(self, sender: str, at: datetime) -> None:
        """Note that an account was in the room."""
        if not sender or len(sender) > MAX_ID:
            return
        self.spoke[sender] = min(at, self.spoke.get(sender, at))

    def note_state(self, fields: Fields, at: datetime) -> None:
        """Note a state event."""
        kind, content = first_text(fields, "type"), object_field(fields, "content")
        if kind == "m.room.create":
            self.is_created = True
        elif kind == "m.room.member":
            self._note_member(fields, content, at)
        elif kind in _DESCRIBED and not fields.get("state_key"):
            known = self.described.get(kind)
            if known is None or known[0] <= at:
                self.described[kind] = at, first_text(content, _DESCRIBED[kind])

    def _note_member(self, fields: Fields, content: Fields, at: datetime) -> None:
        account, before = first_text(fields, "state_key"), previous_content(fields)
        if not account or len(account) > MAX_ID:
            return
        self.is_direct = self.is_direct or content.get("is_direct") is True or before.get("is_direct") is True
        change = MemberEvent(
            at=at, membership=first_text(content, "membership"), previous=first_text(before, "membership")
        )
        self.changes.setdefault(account, []).append(change)
        for moment, holder in ((at - _INSTANT, before), (at, content)):
            name = first_text(holder, "displayname")
            if name:
                self.names.setdefault(account, []).append((moment, name))

    def sort(self) -> None:
        """Sort what was noted. Call this before the facts are read."""
        for names in self.names.values():
            names.sort()
        for changes in self.changes.values():
            changes.sort(key=lambda change: change.at)
            for place, (before, change) in enumerate(pairwise(changes), start=1):
                if not change.previous:
                    changes[place] = replace(change, previous=before.membership)

    def author(self, account: str, at: datetime | None = None) -> IncomingAuthor:
        """Return an account with its name at a time, or with its newest name."""
        names: Sequence[tuple[datetime, str]] = self.names.get(account, ())
        if not names:
            return IncomingAuthor(account_id=account, name=account)
        place = len(names) if at is None else bisect_right(names, at, key=lambda entry: entry[0])
        return IncomingAuthor(account_id=account, name=names[max(place - 1, 0)][1])

    def room(self, room_id: str) -> IncomingRoom:
        """Return the description of the room."""
        kind = self._kind()
        return IncomingRoom(
            external_id=room_id,
            name=self._value("m.room.name")
            or self._value("m.room.canonical_alias")
            or self.heading[0]
            or room_id,
            kind=kind,
            visibility="members" if self.is_direct else self._visibility(),
            topic=self._value("m.room.topic") or self.heading[1],
            members=self._members(is_dm=kind == "dm"),
        )

    def _value(self, kind: str) -> str:
        return self.described[kind][1] if kind in self.described else ""

    def _kind(self) -> RoomKind | None:
        if not self.is_direct:
            # A room without a stated join rule may be a direct one.
            return "channel" if self._value("m.room.join_rules") else None
        return "dm" if len(self.changes.keys() | self.spoke.keys()) <= _SIDES else "group_dm"

    def _visibility(self) -> Visibility | None:
        """Return who may read the room; None if the state does not say it."""
        join_rule, history = self._value("m.room.join_rules"), self._value("m.room.history_visibility")
        if (join_rule and join_rule != "public") or history in _MEMBERS_HISTORY:
            return "members"
        return "open" if join_rule and history in _SHARED_HISTORY else None

    def _members(self, *, is_dm: bool) -> tuple[IncomingMembership, ...]:
        """Return all periods of all members.

        A list of members ends the memberships that it omits. So a part of a room has no list, unless somebody left:
        whoever left must not read on.
        """
        found = [
            period
            for account in sorted(self.changes.keys() | self.spoke.keys())
            for period in self._periods(account, is_dm=is_dm)
        ]
        present = sum(period.left_at is None for period in found)
        is_whole = self.is_created and present >= self.member_count
        departed = any(
            change.membership in _GONE and change.previous in {"join", ""}
            for changes in self.changes.values()
            for change in changes
        )
        return tuple(found) if is_whole or departed or is_dm else ()

    def _periods(self, account: str, *, is_dm: bool) -> list[IncomingMembership]:
        """Return the periods of a member. A period without a stated beginning begins with the first sign of the member."""
        author, spoke = self.author(account), self.spoke.get(account)
        found: list[IncomingMembership] = []
        begun: datetime | None = None
        for change in self.changes.get(account, ()):
            was_member = change.previous == "join" and begun is None and not found
            if was_member and spoke is not None and spoke <= change.at:
                begun = spoke
            if change.membership == "join":
                begun = begun or change.at
            elif change.membership in _GONE and begun is not None:
                found.append(IncomingMembership(author=author, joined_at=begun, left_at=change.at))
                begun = None
        if begun is None and account not in self.changes:
            begun = spoke
        if begun is not None:
            # Both people of a direct conversation read all of it.
            found.append(IncomingMembership(author=author, joined_at=None if is_dm else begun))
        return found


def state_text(fields: Fields, member: str) -> str:
    """Return a state event in words; empty if it says nothing that people read. `member` is the name of its subject."""
    kind, content = first_text(fields, "type"), object_field(fields, "content")
    if kind == "m.room.topic":
        return (
            f"changed the topic: {first_text(content, 'topic')}"
            if first_text(content, "topic")
            else "removed the topic"
        )
    if kind == "m.room.name":
        return (
            f"renamed the room: {first_text(content, 'name')}"
            if first_text(content, "name")
            else "removed the name of the room"
        )
    if kind != "m.room.member":
        return ""
    text = _member_text(fields, content, member)
    reason = first_text(content, "reason")
    return f"{text}: {reason}" if text and reason else text


def _member_text(fields: Fields, content: Fields, member: str) -> str:
    before = previous_content(fields)
    membership, was = first_text(content, "membership"), first_text(before, "membership")
    if (membership, was) == ("join", "join"):
        name, old = first_text(content, "displayname"), first_text(before, "displayname")
        return f"changed the name from {old} to {name}" if name and old and name != old else ""
    if membership == "leave":
        is_own = fields.get("sender") == fields.get("state_key")
        texts = _OWN_LEAVE if is_own else _FOREIGN_LEAVE
        return texts.get(was, texts["join"]).format(member=member)
    return _MEMBER_TEXTS.get(membership, "").format(member=member)
