"""Decides who may read a room, whether or not its platform states it.

A room that may be private is never assumed to be open. So direct rooms, rooms of an unknown kind, and rooms with a name
or category such as "staff" are closed.
"""

import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from roomlore.domain.incoming import IncomingRoom, RoomKind, Visibility

Basis = Literal["stated", "assumed"]
DIRECT_KINDS: frozenset[RoomKind | None] = frozenset({"dm", "group_dm"})
#: The stored kind of a room of unknown kind.
UNKNOWN_KIND: RoomKind = "channel"
_LOCK_EMOJI = ("\N{LOCK}", "\N{CLOSED LOCK WITH KEY}", "\N{LOCK WITH INK PEN}")
#: Words that suggest a private room, without accents.
_PRIVATE_WORDS = frozenset({
    "admin", "admins", "administration", "administrators", "boardroom", "committee", "compensation",
    "confidential", "council", "directors", "disciplinary", "exec", "execs", "executive", "executives",
    "finance", "finances", "founders", "hidden", "hiring", "hr", "interviews", "internal", "layoffs",
    "leaders", "leadership", "legal", "management", "managers", "mod", "moderation", "moderator",
    "moderators", "modmail", "mods", "officers", "payroll", "personnel", "private", "recruiting",
    "restricted", "salaries", "salary", "secret", "secrets", "staff", "trustees", "vip", "administracion",
    "confidencial", "confidentiel", "direccion", "geheim", "gehalt", "gehalter", "geschaftsfuhrung",
    "intern", "interna", "interne", "interno", "leitung", "moderacion", "moderadores", "moderateurs",
    "personalabteilung", "privado", "privat", "prive", "vertraulich", "vorstand",
})  # fmt: skip
#: Prefixes of compounds such as "modchat" and "stafflounge".
_PRIVATE_PREFIXES = ("admin", "leadership", "moderator", "private", "staff")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomVisibility:
    """The visibility of a room, and its basis."""

    visibility: Visibility
    basis: Basis
    #: A short reason for reports.
    why: str


def visibility_of(room: IncomingRoom) -> RoomVisibility:
    """Return the visibility of a room. It is stated or assumed."""
    if room.kind in DIRECT_KINDS:
        return RoomVisibility(visibility="members", basis="stated", why="a direct room")
    if room.visibility is not None:
        return RoomVisibility(visibility=room.visibility, basis="stated", why="its platform says so")
    if room.kind is None:
        return RoomVisibility(visibility="members", basis="assumed", why="its kind is not known")
    for what, name in (("name", room.name), ("category", room.category)):
        if suggests_private(name):
            why = f"the {what} suggests a closed circle"
            return RoomVisibility(visibility="members", basis="assumed", why=why)
    return RoomVisibility(visibility="open", basis="assumed", why="nothing suggests a closed circle")


def is_stated_closed(room: IncomingRoom) -> bool:
    """Return whether the room is stated (not only assumed) to be closed."""
    return room.visibility == "members" or room.kind in DIRECT_KINDS


def is_stated_open(room: IncomingRoom) -> bool:
    """Return whether the room is stated (not only assumed) to be open."""
    return room.visibility == "open" and room.kind not in DIRECT_KINDS


def is_direct_stated_open(room: IncomingRoom) -> bool:
    """Return whether the description contradicts itself, because a direct room is never open."""
    return room.kind in DIRECT_KINDS and room.visibility == "open"


def suggests_private(name: str) -> bool:
    """Return whether a name of a room or category suggests a private room."""
    if any(lock in name for lock in _LOCK_EMOJI):
        return True
    return any(word in _PRIVATE_WORDS or word.startswith(_PRIVATE_PREFIXES) for word in _words(name))


def _words(name: str) -> list[str]:
    # "ModChat" is two words.
    apart = [
        f" {letter}" if letter.isupper() and before.islower() else letter
        for before, letter in pairwise(f" {name}")
    ]
    plain = unicodedata.normalize("NFKD", "".join(apart).casefold())
    bare = (letter for letter in plain if not unicodedata.combining(letter))
    return "".join(letter if letter.isalnum() else " " for letter in bare).split()
