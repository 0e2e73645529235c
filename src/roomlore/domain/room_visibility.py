"""Who may read a room, where its platform says it and where it does not.

A room that may be private is never opened by an assumption: direct rooms, rooms of a kind that nobody knows, and
rooms whose name or category suggests a closed circle are for their members.
"""

import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from roomlore.domain.incoming import IncomingRoom, RoomKind, Visibility

#: What the audience of a room rests on: the platform said it, or nobody did.
Basis = Literal["stated", "assumed"]
#: Rooms of these kinds are never open.
DIRECT_KINDS: frozenset[RoomKind | None] = frozenset({"dm", "group_dm"})
#: What a room is stored as whose kind nobody knows.
UNKNOWN_KIND: RoomKind = "channel"
_LOCK_EMOJI = ("\N{LOCK}", "\N{CLOSED LOCK WITH KEY}", "\N{LOCK WITH INK PEN}")
#: Words that name a closed circle, without accents.
_PRIVATE_WORDS = frozenset(
    {
        *("admin", "admins", "administration", "administrators", "boardroom", "committee"),
        *(
            "compensation",
            "confidential",
            "council",
            "directors",
            "disciplinary",
            "exec",
            "execs",
            "executive",
        ),
        *("executives", "finance", "finances", "founders", "hidden", "hiring", "hr", "interviews"),
        *("internal", "layoffs", "leaders", "leadership", "legal", "management", "managers", "mod"),
        *("moderation", "moderator", "moderators", "modmail", "mods", "officers", "payroll"),
        *(
            "personnel",
            "private",
            "recruiting",
            "restricted",
            "salaries",
            "salary",
            "secret",
            "secrets",
            "staff",
        ),
        *("trustees", "vip"),
        # other languages, as far as they are clear
        *("administracion", "confidencial", "confidentiel", "direccion", "geheim", "gehalt"),
        *("gehalter", "geschaftsfuhrung", "intern", "interna", "interne", "interno", "leitung", "moderacion"),
        *("moderadores", "moderateurs", "personalabteilung", "privado", "privat", "prive"),
        *("vertraulich", "vorstand"),
    }
)
#: Parts of a word written together, as in "modchat" and "stafflounge".
_PRIVATE_PREFIXES = ("admin", "leadership", "moderator", "private", "staff")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomVisibility:
    """Who may read a room, and what that rests on."""

    visibility: Visibility
    basis: Basis
    #: In a few words, for reports.
    why: str


def visibility_of(room: IncomingRoom) -> RoomVisibility:
    """Return who may read a room, as it is described."""
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
    """Return whether a room is described as being for its members, and not only assumed to be."""
    return room.visibility == "members" or room.kind in DIRECT_KINDS


def is_stated_open(room: IncomingRoom) -> bool:
    """Return whether a room is described as being for the whole org, and not only assumed to be."""
    return room.visibility == "open" and room.kind not in DIRECT_KINDS


def is_direct_stated_open(room: IncomingRoom) -> bool:
    """Return whether a description contradicts itself: a direct room is never open."""
    return room.kind in DIRECT_KINDS and room.visibility == "open"


def suggests_private(name: str) -> bool:
    """Return whether a name of a room, or of the category above it, is one that closed circles have."""
    if any(lock in name for lock in _LOCK_EMOJI):
        return True
    return any(word in _PRIVATE_WORDS or word.startswith(_PRIVATE_PREFIXES) for word in _words(name))


def _words(name: str) -> list[str]:
    """Return the words of a name, small and without accents; "ModChat" is two."""
    apart = [
        f" {letter}" if letter.isupper() and before.islower() else letter
        for before, letter in pairwise(f" {name}")
    ]
    plain = unicodedata.normalize("NFKD", "".join(apart).casefold())
    bare = (letter for letter in plain if not unicodedata.combining(letter))
    return "".join(letter if letter.isalnum() else " " for letter in bare).split()
