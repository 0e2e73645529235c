"""Takes somebody out of what others said: ids and names in structured fields, marks and mentions in texts.

What others said in plain words stays theirs. The same is done to what is stored when a person is erased,
and to what comes in afterwards.

An account may be called "1" and a person "message": in structured fields only what stands under a key that
bears people is compared with accounts and names. The id of a file, a priority or a type is nobody.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, cast

from roomlore.domain.patterns import later

ERASED = "[erased]"
AT_ERASED = "@[erased]"
#: What a room is called that was named like somebody who is gone.
NAMELESS = "erased"
#: Rooms of these kinds are called like those who are in them.
PRIVATE_KINDS = frozenset({"dm", "group_dm"})
#: Shorter names are words of many other meanings.
SHORTEST_WORD = 3
#: A shorter number under a key of several people is a count more often than an account.
SHORTEST_NUMBER = 5

# Keys are written as `_plain` leaves them, so that user_id, userId and User-Id are one.

#: What stands under one of these is an account, a name or an object about somebody; so it is under `..._by`.
PERSON = frozenset(
    {
        *("account", "accountid", "accountname", "actor", "actorid", "actorname", "assignee"),
        *("author", "authorid", "authorname", "authorsubname", "botid", "botprofile", "by"),
        *("contact", "contactinformation", "creator", "creatorid", "displayname"),
        *("displaynamenormalized", "firstname", "forwardedfrom", "forwardedfromid", "from", "fromid"),
        *("fromname", "fullname", "globalname", "handle", "host", "invitee", "inviter", "inviterid"),
        *("lastname", "login", "member", "memberid", "mention", "nick", "nickname", "owner"),
        *("ownerid", "parentuserid", "person", "poster", "profile", "realname", "realnamenormalized"),
        *("recipient", "recipientid", "savedfrom", "screenname", "sender", "senderid", "sendername"),
        *("signature", "speaker", "to", "uploader", "user", "userid", "username", "userprofile"),
        *("viabot", "who"),
    }
)
#: Under one of these stand several people, in a list or in a map with accounts for keys.
PEOPLE = frozenset(
    {
        *("accounts", "actors", "admins", "audience", "authors", "contacts", "invitees", "memberids"),
        *("members", "mentionedusers", "mentions", "owners", "participants", "people", "profiles"),
        *("recipients", "replyusers", "subscribers", "userids", "users"),
    }
)
#: In an object about somebody these are theirs; anywhere else they are those of a file, room or emoji.
INNER = frozenset({"id", "name"})
#: An object in which one of these is the account tells about the person, wherever it stands.
DESCRIBES = frozenset({"accountid", "authorid", "fromid", "user", "userid"})


class Place(Enum):
    """What the key above a JSON value makes of it."""

    #: The whole of a structured field: the message itself, never somebody in it.
    WHOLE = auto()
    #: Nothing that bears people.
    ELSEWHERE = auto()
    PERSON = auto()
    PEOPLE = auto()
    REACTIONS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How somebody is called on one platform."""

    accounts: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    _patterns: Mapping[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the patterns, once."""
        marks = rf"<@!?(?:{_either(self.accounts)})(?:\|[^<>]*)?>"
        mention = rf"(?i:@(?:{_either((self.names | self.accounts) - {ERASED})}))(?!\w)"
        word = rf"(?:{_either(filter(_is_telling, self.names))})(?!\w)"
        anywhere = rf"(?<!\w)(?:{_either(self.names)})(?!\w)"
        patterns = {
            "mark": later(marks),
            "mentions": _run_of(mention),
            "words": _run_of(word),
            "both": _run_of(mention, word),
            "anywhere": later(anywhere, re.IGNORECASE),
        }
        object.__setattr__(self, "_patterns", patterns)

    def __bool__(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self.accounts or self.names)

    def is_among(self, ids: Any) -> bool:
        """Return whether one of the accounts is in a list of account ids."""
        return isinstance(ids, list | tuple) and any(
            _is_among(one, self.accounts) for one in cast("Sequence[Any]", ids)
        )

    def is_named_in(self, text: str) -> bool:
        """Return whether one of the names stands in a text as a word, in whatever case."""
        return self._patterns["anywhere"].search(text) is not None

    def erased_from(self, text: str) -> str:
        """Return a text in which each of the names is replaced, wherever it stands as a word, in whatever case."""
        return self._patterns["anywhere"].sub(ERASED, text)

    def out_of(self, text: str, *, mentioned: bool, notice: bool) -> str:
        """Return a text without marks, where it mentions them without mentions, as a notice without names."""
        if "<@" in text:
            text = self._patterns["mark"].sub(AT_ERASED, text)
        if not mentioned and not notice:
            return text
        runs = self._patterns["both" if mentioned and notice else "mentions" if mentioned else "words"]
        return runs.sub(_erased_run, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubber:
    """Takes one trace out of one message."""

    trace: Trace
    #: Whether the message mentions or shows the person by the platform's own structure.
    mentions_them: bool = False
    #: Whether it is a notice of the platform, which nobody said.
    is_notice: bool = False
    #: How the message's own author is called, who may bear the same name.
    author_name: str = ""

    def text(self, text: str) -> str:
        """Return a text without marks and mentions of the person, a notice also without their names."""
        return self.trace.out_of(text, mentioned=self.mentions_them, notice=self.is_notice)

    def ids(self, ids: Any) -> Any:
        """Return account ids without those of the person; what is no list of them is any value."""
        if not isinstance(ids, list | tuple):
            return self._value(ids, Place.PERSON)
        return [one for one in cast("Sequence[Any]", ids) if not _is_among(one, self.trace.accounts)]

    def reactions(self, reactions: Any) -> Any:
        """Return reactions without the person among those who reacted."""
        if not isinstance(reactions, list | tuple):
            return self._value(reactions, Place.REACTIONS)
        return [self._reaction(reaction) for reaction in cast("Sequence[Any]", reactions)]

    def _reaction(self, reaction: Any) -> Any:
        if not isinstance(reaction, Mapping):
            return self.value(reaction)
        fields = dict(cast("Mapping[str, Any]", reaction))
        if "by" in fields:
            fields["by"] = self.ids(fields["by"])
        return self.value(fields)

    def value(self, value: Any) -> Any:
        """Return a JSON value in which nothing that stands for somebody is an account or name of the person."""
        return self._value(value, Place.WHOLE)

    def _value(self, value: Any, place: Place) -> Any:
        if isinstance(value, str):
            return ERASED if self._is_theirs(value, place) else self.text(value)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[str, Any]", value), place)
        if isinstance(value, list | tuple):
            inner = Place.PERSON if place in _BEARING else Place.ELSEWHERE
            return [self._value(item, inner) for item in cast("Sequence[Any]", value)]
        return ERASED if self._is_their_number(value, place) else value

    def _object(self, value: Mapping[str, Any], place: Place) -> dict[str, Any]:
        place = _named_after_somebody(value, place)
        describes = self._describes(value, place)
        scrubbed: dict[str, Any] = {}
        for key, item in value.items():
            is_told = describes and isinstance(item, str) and key != "type"
            kept = ERASED if place in _MAPS and key in self.trace.accounts else key
            scrubbed[kept] = ERASED if is_told and item else self._value(item, _place(key, item, place))
        return scrubbed

    def _describes(self, value: Mapping[str, Any], place: Place) -> bool:
        if place is Place.WHOLE:
            return False
        telling = DESCRIBES | {"id"} if place in _BEARING else DESCRIBES
        return any(_plain(key) in telling and self._is_account(item) for key, item in value.items())

    def _is_account(self, value: Any) -> bool:
        return (
            isinstance(value, str | int) and not isinstance(value, bool) and str(value) in self.trace.accounts
        )

    def _is_theirs(self, string: str, place: Place) -> bool:
        if place not in _BEARING:
            return False
        return string in self.trace.accounts or (string in self.trace.names and string != self.author_name)

    def _is_their_number(self, value: Any, place: Place) -> bool:
        if isinstance(value, bool) or not isinstance(value, int) or place not in _BEARING:
            return False
        is_count = place is Place.PEOPLE and abs(value) < 10 ** (SHORTEST_NUMBER - 1)
        return not is_count and str(value) in self.trace.accounts


_BEARING = frozenset({Place.PERSON, Place.PEOPLE})
_MAPS = frozenset({Place.PEOPLE, Place.REACTIONS})


def _place(key: str, item: Any, above: Place) -> Place:
    """Return what a key makes of the item under it, in an object that stands in a place itself."""
    plain = _plain(key)
    if plain == "reactions":
        return Place.REACTIONS
    if plain in PEOPLE:
        return Place.PEOPLE
    if plain in PERSON or key.endswith(("_by", "By")) or (above in _BEARING and plain in INNER):
        return Place.PERSON
    # In maps the keys are accounts or emoji, and what they lead to is somebody or those who reacted.
    is_list = isinstance(item, list | tuple)
    leads_to_people = above is Place.PEOPLE or (above is Place.REACTIONS and is_list)
    return Place.PERSON if leads_to_people and not isinstance(item, int) else Place.ELSEWHERE


def _named_after_somebody(value: Mapping[str, Any], place: Place) -> Place:
    """Return the place of an object; a one-to-one room bears the name of whom it is with."""
    return Place.PERSON if place is Place.ELSEWHERE and value.get("kind") == "dm" else place


def _plain(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


def _is_among(one: Any, accounts: frozenset[str]) -> bool:
    return isinstance(one, str) and one in accounts


def _is_telling(name: str) -> bool:
    # Nobody's name is looked for inside our own mark.
    return len(name) >= SHORTEST_WORD and name not in ERASED


def _run_of(*called: str) -> re.Pattern[str]:
    """Return a pattern of what somebody is called, over and over: "Ana@U1" is two of it, and neither may stay."""
    return later(rf"(?<!\w)(?:{'|'.join(called)})+")


def _erased_run(run: re.Match[str]) -> str:
    return AT_ERASED if run[0].startswith("@") else ERASED


def _either(strings: Iterable[str]) -> str:
    """Return a pattern of any of the strings, longer ones first; of none it matches nothing."""
    longest_first = sorted(strings, key=lambda string: (-len(string), string))
    return "|".join(re.escape(string) for string in longest_first) or "(?!)"


def nameless(name: str, trace: Trace) -> str:
    """Return what a room for a few is called without the names of somebody who is in it no more."""
    left = trace.erased_from(name)
    return NAMELESS if left == ERASED else left
