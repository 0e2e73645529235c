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

from roomlore.domain.patterns import lazy_pattern

ERASED = "[erased]"
ERASED_MENTION = "@[erased]"
#: What a room is called that was named like somebody who is gone.
ERASED_NAME = "erased"
#: Rooms of these kinds are called like those who are in them.
PRIVATE_KINDS = frozenset({"dm", "group_dm"})
#: Shorter names are words of many other meanings.
MIN_WORD_LENGTH = 3
#: A shorter number under a key of several people is a count more often than an account.
MIN_NUMBER_LENGTH = 5

# Keys are written as `_plain` leaves them, so that user_id, userId and User-Id are one.

#: What stands under one of these is an account, a name or an object about somebody; so it is under `..._by`.
PERSON_KEYS = frozenset(
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
PEOPLE_KEYS = frozenset(
    {
        *("accounts", "actors", "admins", "audience", "authors", "contacts", "invitees", "memberids"),
        *("members", "mentionedusers", "mentions", "owners", "participants", "people", "profiles"),
        *("recipients", "replyusers", "subscribers", "userids", "users"),
    }
)
#: In an object about somebody these are theirs; anywhere else they are those of a file, room or emoji.
IDENTIFYING_KEYS = frozenset({"id", "name"})
#: An object in which one of these is the account tells about the person, wherever it stands.
ACCOUNT_KEYS = frozenset({"accountid", "authorid", "fromid", "user", "userid"})


class ValueRole(Enum):
    """What the key above a JSON value makes of it."""

    #: The whole of a structured field: the message itself, never somebody in it.
    WHOLE = auto()
    #: Nothing that bears people.
    ELSEWHERE = auto()
    PERSON = auto()
    PEOPLE = auto()
    REACTIONS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAliases:
    """How somebody is called on one platform."""

    accounts: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    _patterns: Mapping[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the patterns, once."""
        marks = rf"<@!?(?:{_either(self.accounts)})(?:\|[^<>]*)?>"
        mention = rf"(?i:@(?:{_either((self.names | self.accounts) - {ERASED})}))(?!\w)"
        word = rf"(?:{_either(filter(_is_distinctive, self.names))})(?!\w)"
        anywhere = rf"(?<!\w)(?:{_either(self.names)})(?!\w)"
        patterns = {
            "mark": lazy_pattern(marks),
            "mentions": _repeated_pattern(mention),
            "words": _repeated_pattern(word),
            "both": _repeated_pattern(mention, word),
            "anywhere": lazy_pattern(anywhere, re.IGNORECASE),
        }
        object.__setattr__(self, "_patterns", patterns)

    def __bool__(self) -> bool:
        """Return whether there is anything to look for."""
        return bool(self.accounts or self.names)

    def has_account_in(self, ids: Any) -> bool:
        """Return whether one of the accounts is in a list of account ids."""
        return isinstance(ids, list | tuple) and any(
            _is_among(one, self.accounts) for one in cast("Sequence[Any]", ids)
        )

    def is_named_in(self, text: str) -> bool:
        """Return whether one of the names stands in a text as a word, in whatever case."""
        return self._patterns["anywhere"].search(text) is not None

    def redact_names(self, text: str) -> str:
        """Return a text in which each of the names is replaced, wherever it stands as a word, in whatever case."""
        return self._patterns["anywhere"].sub(ERASED, text)

    def redact(self, text: str, *, mentioned: bool, notice: bool) -> str:
        """Return a text without marks, where it mentions them without mentions, as a notice without names."""
        if "<@" in text:
            text = self._patterns["mark"].sub(ERASED_MENTION, text)
        if not mentioned and not notice:
            return text
        runs = self._patterns["both" if mentioned and notice else "mentions" if mentioned else "words"]
        return runs.sub(_erased_run, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactor:
    """Takes one trace out of one message."""

    aliases: PersonAliases
    #: Whether the message mentions or shows the person by the platform's own structure.
    mentions_them: bool = False
    #: Whether it is a notice of the platform, which nobody said.
    is_notice: bool = False
    #: How the message's own author is called, who may bear the same name.
    author_name: str = ""

    def text(self, text: str) -> str:
        """Return a text without marks and mentions of the person, a notice also without their names."""
        return self.aliases.redact(text, mentioned=self.mentions_them, notice=self.is_notice)

    def ids(self, ids: Any) -> Any:
        """Return account ids without those of the person; what is no list of them is any value."""
        if not isinstance(ids, list | tuple):
            return self._value(ids, ValueRole.PERSON)
        return [one for one in cast("Sequence[Any]", ids) if not _is_among(one, self.aliases.accounts)]

    def reactions(self, reactions: Any) -> Any:
        """Return reactions without the person among those who reacted."""
        if not isinstance(reactions, list | tuple):
            return self._value(reactions, ValueRole.REACTIONS)
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
        return self._value(value, ValueRole.WHOLE)

    def _value(self, value: Any, place: ValueRole) -> Any:
        if isinstance(value, str):
            return ERASED if self._is_theirs(value, place) else self.text(value)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[str, Any]", value), place)
        if isinstance(value, list | tuple):
            inner = ValueRole.PERSON if place in _PERSON_ROLES else ValueRole.ELSEWHERE
            return [self._value(item, inner) for item in cast("Sequence[Any]", value)]
        return ERASED if self._is_their_number(value, place) else value

    def _object(self, value: Mapping[str, Any], place: ValueRole) -> dict[str, Any]:
        place = _object_role(value, place)
        describes = self._describes(value, place)
        scrubbed: dict[str, Any] = {}
        for key, item in value.items():
            is_told = describes and isinstance(item, str) and key != "type"
            kept = ERASED if place in _MAPPING_ROLES and key in self.aliases.accounts else key
            scrubbed[kept] = ERASED if is_told and item else self._value(item, _value_role(key, item, place))
        return scrubbed

    def _describes(self, value: Mapping[str, Any], place: ValueRole) -> bool:
        if place is ValueRole.WHOLE:
            return False
        telling = ACCOUNT_KEYS | {"id"} if place in _PERSON_ROLES else ACCOUNT_KEYS
        return any(_normalised_key(key) in telling and self._is_account(item) for key, item in value.items())

    def _is_account(self, value: Any) -> bool:
        return (
            isinstance(value, str | int)
            and not isinstance(value, bool)
            and str(value) in self.aliases.accounts
        )

    def _is_theirs(self, string: str, place: ValueRole) -> bool:
        if place not in _PERSON_ROLES:
            return False
        return string in self.aliases.accounts or (
            string in self.aliases.names and string != self.author_name
        )

    def _is_their_number(self, value: Any, place: ValueRole) -> bool:
        if isinstance(value, bool) or not isinstance(value, int) or place not in _PERSON_ROLES:
            return False
        is_count = place is ValueRole.PEOPLE and abs(value) < 10 ** (MIN_NUMBER_LENGTH - 1)
        return not is_count and str(value) in self.aliases.accounts


_PERSON_ROLES = frozenset({ValueRole.PERSON, ValueRole.PEOPLE})
_MAPPING_ROLES = frozenset({ValueRole.PEOPLE, ValueRole.REACTIONS})


def _value_role(key: str, item: Any, above: ValueRole) -> ValueRole:
    """Return what a key makes of the item under it, in an object that stands in a place itself."""
    plain = _normalised_key(key)
    if plain == "reactions":
        return ValueRole.REACTIONS
    if plain in PEOPLE_KEYS:
        return ValueRole.PEOPLE
    if (
        plain in PERSON_KEYS
        or key.endswith(("_by", "By"))
        or (above in _PERSON_ROLES and plain in IDENTIFYING_KEYS)
    ):
        return ValueRole.PERSON
    # In maps the keys are accounts or emoji, and what they lead to is somebody or those who reacted.
    is_list = isinstance(item, list | tuple)
    leads_to_people = above is ValueRole.PEOPLE or (above is ValueRole.REACTIONS and is_list)
    return ValueRole.PERSON if leads_to_people and not isinstance(item, int) else ValueRole.ELSEWHERE


def _object_role(value: Mapping[str, Any], place: ValueRole) -> ValueRole:
    """Return the place of an object; a one-to-one room bears the name of whom it is with."""
    return ValueRole.PERSON if place is ValueRole.ELSEWHERE and value.get("kind") == "dm" else place


def _normalised_key(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


def _is_among(one: Any, accounts: frozenset[str]) -> bool:
    return isinstance(one, str) and one in accounts


def _is_distinctive(name: str) -> bool:
    # Nobody's name is looked for inside our own mark.
    return len(name) >= MIN_WORD_LENGTH and name not in ERASED


def _repeated_pattern(*called: str) -> re.Pattern[str]:
    """Return a pattern of what somebody is called, over and over: "Ana@U1" is two of it, and neither may stay."""
    return lazy_pattern(rf"(?<!\w)(?:{'|'.join(called)})+")


def _erased_run(run: re.Match[str]) -> str:
    return ERASED_MENTION if run[0].startswith("@") else ERASED


def _either(strings: Iterable[str]) -> str:
    """Return a pattern of any of the strings, longer ones first; of none it matches nothing."""
    longest_first = sorted(strings, key=lambda string: (-len(string), string))
    return "|".join(re.escape(string) for string in longest_first) or "(?!)"


def without_names(name: str, trace: PersonAliases) -> str:
    """Return what a room for a few is called without the names of somebody who is in it no more."""
    left = trace.redact_names(name)
    return ERASED_NAME if left == ERASED else left
