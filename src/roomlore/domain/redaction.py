"""Redacts an erased person in other people's messages: ids and names in structured fields, and mentions in texts.

Plain words of other people stay unchanged. Stored records are redacted in the same way on erasure as later imports. An
account may be called "1" and a person "message". So structured fields are compared with accounts and names only under
keys that hold people. File ids, priorities and types stay unchanged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, cast

from roomlore.domain.patterns import lazy_pattern

ERASED = "[erased]"
ERASED_MENTION = "@[erased]"
#: The new name of a room that was named after an erased person.
ERASED_NAME = "erased"
#: Rooms of these kinds are named after their members.
PRIVATE_KINDS = frozenset({"dm", "group_dm"})
#: Names that are shorter than this are too often common words.
MIN_WORD_LENGTH = 3
#: Under a key for several people, a shorter number is more often a count than an account.
MIN_NUMBER_LENGTH = 5

# Keys are normalised by `_normalised_key`: user_id, userId and User-Id are equal.

#: The values of these keys, and of `..._by`, are accounts, names or objects about a person.
PERSON_KEYS = frozenset({
    "account", "accountid", "accountname", "actor", "actorid", "actorname", "assignee", "author",
    "authorid", "authorname", "authorsubname", "botid", "botprofile", "by", "contact",
    "contactinformation", "creator", "creatorid", "displayname", "displaynamenormalized", "firstname",
    "forwardedfrom", "forwardedfromid", "from", "fromid", "fromname", "fullname", "globalname", "handle",
    "host", "invitee", "inviter", "inviterid", "lastname", "login", "member", "memberid", "mention",
    "nick", "nickname", "owner", "ownerid", "parentuserid", "person", "poster", "profile", "realname",
    "realnamenormalized", "recipient", "recipientid", "savedfrom", "screenname", "sender", "senderid",
    "sendername", "signature", "speaker", "to", "uploader", "user", "userid", "username", "userprofile",
    "viabot", "who",
})  # fmt: skip
#: The values of these keys are several people: a list, or a map with accounts as keys.
PEOPLE_KEYS = frozenset({
    "accounts", "actors", "admins", "audience", "authors", "contacts", "invitees", "memberids", "members",
    "mentionedusers", "mentions", "owners", "participants", "people", "profiles", "recipients",
    "replyusers", "subscribers", "userids", "users",
})  # fmt: skip
#: Keys that identify the person in an object about a person. In other objects, they belong to a file, room or emoji.
IDENTIFYING_KEYS = frozenset({"id", "name"})
#: If an object has the person's account under one of these keys, it is about the person, wherever the object is.
ACCOUNT_KEYS = frozenset({"accountid", "authorid", "fromid", "user", "userid"})


class ValueRole(Enum):
    """The meaning that the key above a JSON value gives to the value."""

    #: The whole of a structured field. An object at this place is the message itself, not a person in it.
    WHOLE = auto()
    #: The value is not about people.
    ELSEWHERE = auto()
    PERSON = auto()
    PEOPLE = auto()
    REACTIONS = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAliases:
    """The accounts and names of a person on one platform."""

    accounts: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    _patterns: Mapping[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the patterns once."""
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
        """Return whether a list of account ids contains one of the person's accounts."""
        return isinstance(ids, list | tuple) and any(
            _is_among(one, self.accounts) for one in cast("Sequence[Any]", ids)
        )

    def is_named_in(self, text: str) -> bool:
        """Return whether a text contains one of the names as a word, in any case."""
        return self._patterns["anywhere"].search(text) is not None

    def redact_names(self, text: str) -> str:
        """Return the text with each of the names replaced, in any case."""
        return self._patterns["anywhere"].sub(ERASED, text)

    def redact(self, text: str, *, mentioned: bool, notice: bool) -> str:
        """Return the text without markup mentions of the person.

        If `mentioned`, `@` mentions are also removed. If `notice`, the person's names are also removed.
        """
        if "<@" in text:
            text = self._patterns["mark"].sub(ERASED_MENTION, text)
        if not mentioned and not notice:
            return text
        pattern = self._patterns["both" if mentioned and notice else "mentions" if mentioned else "words"]
        return pattern.sub(_erased_run, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redactor:
    """Redacts one person from one message."""

    aliases: PersonAliases
    #: Whether the platform's own data say that the message mentions this person.
    mentions_them: bool = False
    #: Whether it is a system notice.
    is_notice: bool = False
    #: The author's name. It may be the same as the person's name.
    author_name: str = ""

    def text(self, text: str) -> str:
        """Return the text without mentions of the person. A notice also loses the person's names."""
        return self.aliases.redact(text, mentioned=self.mentions_them, notice=self.is_notice)

    def ids(self, ids: Any) -> Any:
        """Return account ids without the person's ids.

        A value that is not a list is redacted like a value about people.
        """
        if not isinstance(ids, list | tuple):
            return self._value(ids, ValueRole.PERSON)
        return [one for one in cast("Sequence[Any]", ids) if not _is_among(one, self.aliases.accounts)]

    def reactions(self, reactions: Any) -> Any:
        """Return reactions without the person."""
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
        """Return a JSON value in which the person's accounts and names are removed from places that hold people."""
        return self._value(value, ValueRole.WHOLE)

    def _value(self, value: Any, role: ValueRole) -> Any:
        if isinstance(value, str):
            return ERASED if self._is_theirs(value, role) else self.text(value)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[str, Any]", value), role)
        if isinstance(value, list | tuple):
            inner = ValueRole.PERSON if role in _PERSON_ROLES else ValueRole.ELSEWHERE
            return [self._value(item, inner) for item in cast("Sequence[Any]", value)]
        return ERASED if self._is_their_number(value, role) else value

    def _object(self, value: Mapping[str, Any], role: ValueRole) -> dict[str, Any]:
        role = _object_role(value, role)
        describes = self._describes(value, role)
        redacted: dict[str, Any] = {}
        for key, item in value.items():
            is_personal = describes and isinstance(item, str) and key != "type"
            new_key = ERASED if role in _MAPPING_ROLES and key in self.aliases.accounts else key
            redacted[new_key] = (
                ERASED if is_personal and item else self._value(item, _value_role(key, item, role))
            )
        return redacted

    def _describes(self, value: Mapping[str, Any], role: ValueRole) -> bool:
        if role is ValueRole.WHOLE:
            return False
        account_keys = ACCOUNT_KEYS | {"id"} if role in _PERSON_ROLES else ACCOUNT_KEYS
        return any(
            _normalised_key(key) in account_keys and self._is_account(item) for key, item in value.items()
        )

    def _is_account(self, value: Any) -> bool:
        return (
            isinstance(value, str | int)
            and not isinstance(value, bool)
            and str(value) in self.aliases.accounts
        )

    def _is_theirs(self, text: str, role: ValueRole) -> bool:
        if role not in _PERSON_ROLES:
            return False
        return text in self.aliases.accounts or (text in self.aliases.names and text != self.author_name)

    def _is_their_number(self, value: Any, role: ValueRole) -> bool:
        if isinstance(value, bool) or not isinstance(value, int) or role not in _PERSON_ROLES:
            return False
        is_count = role is ValueRole.PEOPLE and abs(value) < 10 ** (MIN_NUMBER_LENGTH - 1)
        return not is_count and str(value) in self.aliases.accounts


_PERSON_ROLES = frozenset({ValueRole.PERSON, ValueRole.PEOPLE})
_MAPPING_ROLES = frozenset({ValueRole.PEOPLE, ValueRole.REACTIONS})


def _value_role(key: str, item: Any, above: ValueRole) -> ValueRole:
    """Return the role that a key gives to its value. `above` is the role of the object that contains the key."""
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
    # In these maps, keys are accounts or emoji, and values are people.
    is_list = isinstance(item, list | tuple)
    leads_to_people = above is ValueRole.PEOPLE or (above is ValueRole.REACTIONS and is_list)
    return ValueRole.PERSON if leads_to_people and not isinstance(item, int) else ValueRole.ELSEWHERE


def _object_role(value: Mapping[str, Any], role: ValueRole) -> ValueRole:
    """Return the role of an object.

    A direct room has the role of a person, because it is named after a person.
    """
    return ValueRole.PERSON if role is ValueRole.ELSEWHERE and value.get("kind") == "dm" else role


def _normalised_key(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


def _is_among(one: Any, accounts: frozenset[str]) -> bool:
    return isinstance(one, str) and one in accounts


def _is_distinctive(name: str) -> bool:
    # Names are not searched inside our own marker.
    return len(name) >= MIN_WORD_LENGTH and name not in ERASED


def _repeated_pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern for runs of the alternatives.

    A run is replaced as a whole: "Ana@U1" is two mentions.
    """
    return lazy_pattern(rf"(?<!\w)(?:{'|'.join(alternatives)})+")


def _erased_run(run: re.Match[str]) -> str:
    return ERASED_MENTION if run[0].startswith("@") else ERASED


def _either(strings: Iterable[str]) -> str:
    longest_first = sorted(strings, key=lambda string: (-len(string), string))
    return "|".join(re.escape(string) for string in longest_first) or "(?!)"


def without_names(name: str, aliases: PersonAliases) -> str:
    """Return the name of a direct or group conversation without the names of an erased member."""
    rest = aliases.redact_names(name)
    return ERASED_NAME if rest == ERASED else rest
