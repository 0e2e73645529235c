"""Turns the message model's reading of a message into a privacy request."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from roomlore.db.privacy_requests import RoomMessage
from roomlore.models.message_model import MessageReading
from roomlore.privacy.identifiers import TOKEN, distinctive_values, proper_names
from roomlore.privacy.mentions import NameIndex, mentioned_ids, unknown_names
from roomlore.privacy.records import PrivacyRequest, RequestKind
from roomlore.privacy.scope import word_stems
from roomlore.text.sentences import without_quoted_lines

#: `allow` means that only some people may be told. It is a request for confidentiality, because those people were
#: addressed.
_KINDS: Mapping[str, RequestKind] = MappingProxyType(
    {"forget": "forget", "confidential": "confidential", "allow": "confidential", "deny": "restrict"}
)
#: Scopes that the place of a message determines. For the others, words have to be compared.
_PLACES = frozenset({"this", "previous"})


def to_request(
    reading: MessageReading, message: RoomMessage, name_index: NameIndex, earlier: Iterable[str] = ()
) -> PrivacyRequest | None:
    """Return the request that a message states according to the model's reading; None if there is none to store.

    `earlier` are earlier texts of the same author. If the request is about a topic, its subject is the words that the
    message shares with these texts.
    """
    kind = None if reading.request is None else _KINDS.get(reading.request)
    if kind is None:
        return None
    text = without_quoted_lines(message.body)
    scope = max(reading.scopes, key=reading.scopes.__getitem__)
    values = _values(text, name_index) if scope == "value" else ()
    is_about_words = scope in {"topic", "value"} and not values
    request = PrivacyRequest(
        kind=kind,
        is_about_itself=scope == "this",
        refers_back=scope == "previous",
        subject=_shared_words(text, earlier) if is_about_words else "",
        identifiers=values,
        is_certain=reading.is_certain_request and scope in _PLACES,
    )
    return _with_people(request, text, message, name_index) if kind == "restrict" else request


def _with_people(
    request: PrivacyRequest, text: str, message: RoomMessage, name_index: NameIndex
) -> PrivacyRequest:
    restricted = mentioned_ids(text, name_index) - {message.author_id}
    if not restricted:
        # The text names no participant, so the request is meant for everybody who was not present.
        return replace(request, kind="confidential")
    unresolved = unknown_names(text, name_index, besides=message.author_id)
    return replace(request, restricted_ids=restricted, unresolved_names=unresolved)


def _shared_words(text: str, earlier: Iterable[str]) -> str:
    stems = frozenset[str]().union(*map(word_stems, earlier))
    return " ".join(word for word in dict.fromkeys(TOKEN.findall(text)) if word_stems(word) & stems)


def _values(text: str, name_index: NameIndex) -> tuple[str, ...]:
    names = [name for name in proper_names(text) if not _tokens(name) & name_index.tokens]
    return tuple(dict.fromkeys([*distinctive_values(text), *names]))


def _tokens(name: str) -> set[str]:
    return {token.casefold() for token in TOKEN.findall(name)}
