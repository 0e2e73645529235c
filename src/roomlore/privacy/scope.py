"""Resolves what a privacy request covers, and matches messages against it.

A request can cover any message of its author. It covers a message of somebody else only if the message repeats a
secret, or replies to a restricted message after the request. A secret is a distinctive value, an alias or a credential:

- A distinctive value is secret if the person who wrote it first asks to forget it, if an agent records such a request
  of this person, or if the first message with the value marks it as confidential.
- An alias is secret if it was told in confidence.
- A credential is a value that a message calls a credential.

A name is no secret, because being the first to mention something gives no rights over what others say about it.

An ongoing restriction covers the messages of its author. It covers everybody's messages if a second participant
confirms the restriction, or if its author restricts only themselves.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from roomlore.db.privacy_requests import RoomMessage
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.privacy import patterns
from roomlore.privacy.identifiers import (
    TOKEN,
    contains_any,
    digests_of,
    distinctive_values,
    is_alias,
    is_credential,
    is_distinctive,
    revealing_parts,
    with_straight_apostrophes,
)
from roomlore.privacy.mentions import NameIndex, mentioned_ids
from roomlore.privacy.recogniser import (
    MAX_REQUEST_LENGTH,
    asks_to_forget,
    is_confidential,
    recognise,
    states_restriction,
)
from roomlore.privacy.records import PrivacyRequest, RequestScope
from roomlore.privacy.topics import topics_of
from roomlore.text.sentences import without_quoted_lines

#: A request without a subject refers only to messages that are at most this far back.
MAX_DISTANCE = 40
#: An agent's record is about a request that is at most this many messages before it.
RECENT = 6
#: A name that occurs in more messages is a topic of the room and no secret.
MAX_SECRET_USES = 8

_SMALL = frozenset(
    TOKEN.findall(
        """
    the and for with that this what from about into onto over your have has had was were are been being
    not but our old new all any some just only also then than them they their there here his her him she
    who whom whose which when where said told mentioned note notes please tied related saved temporary
    deleted thing things stuff
    """
    )
)

#: Everybody who wrote at most this long before a message was present when it was written.
PRESENCE_WINDOW = timedelta(days=1)
_CLAUSE = lazy_pattern(r"(?<=[.!?])\s|[\n;:]|,\s|\s[-\u2013\u2014]\s")
#: Verbs, or signs of code, of which a statement contains at least one.
_STATES = lazy_pattern(
    r"\b(?:is|are|was|were|am|be|will|can|should|must|use|let's|have|has|had|do|does|did|run|try|go|take|meet|see|means?|needs?|"
    r"starts?|begins?|ends?|goes|comes?|opens?|closes?|leaves?|arrives?|works?|costs?|moves?|stays?|lives?|runs?|stands?|hangs?|"
    r"belongs?|says|reads|makes|takes|gets?|got|keeps?|wants?|call|ask|put|send|pick|bring)\b"
    r"|'(?:s|re|m|ll|ve)\b|`",
    re.IGNORECASE,
)
#: A request that repeats what is to be forgotten: "forget that I told you I am ill".
_SAYS_IT_AGAIN = lazy_pattern(
    r"\b(?:forget|pretend) (?:that )?i (?:ever |just )?(?:said|mentioned|told you|brought up) (?!that\b|this\b|it\b|anything\b)"
    r"|\b(?:forget|erase|delete) (?:that|how) (?:i|my)\b",
    re.IGNORECASE,
)

#: The maximum number of values of a request: first those that it names, then the most recent ones.
MAX_VALUES = 32


def resolve_scope(
    request: PrivacyRequest,
    message: RoomMessage,
    room: Sequence[RoomMessage],
    *,
    name_index: NameIndex,
    earlier: Collection[RequestScope],
    common: Collection[str] = (),
    present: Collection[ParticipantId] = (),
) -> RequestScope:
    """Return the scope of a request.

    The scope includes the request's own message, unless a request to forget also states what is true instead.
    `room` holds the messages that the request may cover, in order; messages after the request are ignored. `earlier`
    are the scopes of earlier requests. `common` are the values that occur so often that `room` does not hold all their
    messages. `present` are the participants who were in the room according to the platform.
    """
    before = messages_before(message, room)
    scope = RequestScope(
        message_id=message.id,
        requester_id=message.author_id,
        kind=request.kind,
        position=message.position,
        target_ids=frozenset({message.id}),
    )
    if request.kind == "restrict" and request.is_ongoing:
        return replace(
            scope,
            is_ongoing=True,
            restricted_ids=request.restricted_ids,
            allowed=request.allowed,
            denied=request.denied,
            author_ids=None
            if _is_confirmed_by_others(request, message, before, name_index=name_index, earlier=earlier)
            else frozenset({message.author_id}),
        )
    about = referenced_messages(request, message, before)
    if request.kind == "forget":
        values = request_values(request, message, before, about=about)
        secrets = _hideable_values(
            values, before, _value_owners(request, message, before, earlier), common=common
        )
        # The message also states what is true from now on, which must stay visible.
        return replace(
            scope,
            target_ids=frozenset(about if states_replacement(message.body) else [message.id, *about]),
            digests=digests_of(secrets),
            author_digests=digests_of(
                with_revealing_parts(one for one in values if _is_rare_value(one, before, common))
            )
            - digests_of(secrets),
        )
    if request.kind == "restrict":
        unheard = set(about) - _heard_by(request.restricted_ids, before)
        return replace(
            scope, target_ids=frozenset({message.id, *unheard}), restricted_ids=request.restricted_ids
        )
    targets = frozenset({message.id, *about})
    return replace(
        scope,
        target_ids=targets,
        exempt_ids=_present_ids(message, before, about, name_index) | frozenset(present),
    )


def covers(scope: RequestScope, message: RoomMessage) -> bool:
    """Return whether a request covers a message.

    A restriction never covers messages of the people that it restricts.
    """
    if scope.restricted_ids is not None and message.author_id in scope.restricted_ids:
        return False
    if message.id in scope.target_ids:
        return True
    if scope.is_ongoing:
        return _is_restricted(scope, message)
    if _answers_later(scope, message):
        return True
    if message.author_id == scope.requester_id and contains_any(message.body, scope.author_digests):
        return True
    return contains_any(message.body, scope.digests)


def _answers_later(scope: RequestScope, message: RoomMessage) -> bool:
    """Return whether a message replies to a covered message, and is by the requester or comes after the request.

    An earlier reply by somebody else is not covered, because nobody can hide a reply by restricting the question
    afterwards. `forget` does not extend to replies, because replies that repeat a value are covered anyway.
    """
    return (
        scope.kind != "forget"
        and message.reply_to in scope.target_ids
        and message.reply_to != scope.message_id
        and (message.author_id == scope.requester_id or message.position > scope.position)
    )


# Referenced messages


def messages_before(message: RoomMessage, room: Sequence[RoomMessage]) -> Sequence[RoomMessage]:
    """Return the messages of a room that come before a given message. `room` is in order."""
    return room[: bisect_left(room, message.position, key=lambda each: each.position)]


def referenced_messages(
    request: PrivacyRequest, message: RoomMessage, before: Sequence[RoomMessage]
) -> list[MessageId]:
    """Return the author's messages that a request refers to without naming a value."""
    if word_stems(request.subject):
        return _on_topic(request.subject, message, before)
    if not request.refers_back:
        return []
    if message.reply_to is not None:
        return [
            each.id for each in before if each.id == message.reply_to and each.author_id == message.author_id
        ]
    return _previous_turn(message, before)


def _previous_turn(message: RoomMessage, before: Sequence[RoomMessage]) -> list[MessageId]:
    """Return the last messages that the author wrote before this message.

    No message of another person comes between them.
    """
    turn: list[MessageId] = []
    for each in reversed(before[-MAX_DISTANCE:]):
        if each.author_id == message.author_id:
            turn.append(each.id)
        elif turn:
            break
    return turn


def _heard_by(participant_ids: frozenset[ParticipantId], before: Sequence[RoomMessage]) -> set[MessageId]:
    """Return the messages that these people evidently saw: messages they replied to, and replies to their messages."""
    theirs = {message.id for message in before if message.author_id in participant_ids}
    answering = {message.id for message in before if message.reply_to in theirs}
    return answering | {
        message.reply_to for message in before if message.id in theirs and message.reply_to is not None
    }


def _on_topic(topic: str, message: RoomMessage, before: Sequence[RoomMessage]) -> list[MessageId]:
    stems = word_stems(topic)
    enough = min(len(stems), 2)
    return [
        each.id
        for each in before
        if each.author_id == message.author_id and len(stems & word_stems(each.body)) >= enough
    ]


def word_stems(text: str) -> frozenset[str]:
    """Return prefixes of the distinctive words of a text, in lower case."""
    words = (token.lower() for token in TOKEN.findall(text))
    return frozenset(word[:5].rstrip("s") for word in words if len(word) > 2 and word not in _SMALL)  # noqa: PLR2004


# Values and their owners


def request_values(
    request: PrivacyRequest,
    message: RoomMessage,
    before: Sequence[RoomMessage],
    *,
    about: Collection[MessageId],
) -> list[str]:
    """Return the values that a request is about."""
    chosen = {*about, message.reply_to} if request.refers_back else set(about)
    repeated = [value for each in before if each.id in chosen for value in distinctive_values(each.body)]
    # Other values are hidden only with the covered messages, because common values may be repeated by chance.
    distinctive = [value for value in reversed(repeated) if is_distinctive(value)]
    return list(dict.fromkeys([*request.identifiers, *distinctive]))[:MAX_VALUES]


def with_revealing_parts(values: Iterable[str]) -> list[str]:
    """Return the values, followed by the parts that reveal them."""
    return list(dict.fromkeys(part for value in values for part in (value, *revealing_parts(value))))


def _value_owners(
    request: PrivacyRequest,
    message: RoomMessage,
    before: Sequence[RoomMessage],
    earlier: Iterable[RequestScope],
) -> set[ParticipantId]:
    """Return the people whose values may be forgotten.

    This is the author. If an agent records that it carried out a request, it is also the person who made the request.
    """
    if not request.is_record or message.author_kind != "agent":
        return {message.author_id}
    recent = {each.id for each in before[-RECENT:] if each.author_id != message.author_id}
    requests = [scope for scope in earlier if scope.kind == "forget" and scope.message_id in recent]
    last = max(requests, key=lambda scope: scope.position, default=None)
    return {message.author_id} if last is None else {message.author_id, last.requester_id}


def _hideable_values(
    values: Iterable[str],
    before: Sequence[RoomMessage],
    owners: Collection[ParticipantId],
    *,
    common: Collection[str],
) -> list[str]:
    """Return the values that these owners may hide in everybody's messages.

    The parts that reveal such a value are included.
    """
    hideable: list[str] = []
    for value in values:
        holders = _messages_saying(value, before)
        if value in common or not holders or not _is_secret(value, holders, owners):
            continue
        # If a part occurred before the whole value did, the part is something else.
        rest = [
            part
            for part in revealing_parts(value)
            if part not in common and _messages_saying(part, before)[:1] == holders[:1]
        ]
        hideable += [value, *rest]
    return hideable


def _is_rare_value(value: str, before: Sequence[RoomMessage], common: Collection[str]) -> bool:
    if any(sign.isdigit() for sign in value):
        return True
    return value not in common and len(_messages_saying(value, before)) <= MAX_SECRET_USES


def _is_secret(value: str, holders: Sequence[RoomMessage], owners: Collection[ParticipantId]) -> bool:
    first = holders[0]
    if is_credential(value, first.body):
        return True
    if is_distinctive(value):
        return first.author_id in owners or is_confidential(first.body)
    return len(holders) <= MAX_SECRET_USES and is_confidential(first.body) and is_alias(value, first.body)


def _messages_saying(value: str, before: Sequence[RoomMessage]) -> list[RoomMessage]:
    """Return the messages that contain a value, in order. Leading requests to forget the value are omitted.

    Asking to forget a value does not make anybody its owner.
    """
    digests = digests_of([value])
    matching = [message for message in before if contains_any(message.body, digests)]
    first = next(
        (index for index, message in enumerate(matching) if not asks_to_forget(message.body)), len(matching)
    )
    return matching[first:]


# Restrictions


def _is_confirmed_by_others(
    request: PrivacyRequest,
    message: RoomMessage,
    before: Sequence[RoomMessage],
    *,
    name_index: NameIndex,
    earlier: Collection[RequestScope],
) -> bool:
    """Return whether an ongoing restriction covers everybody's messages.

    It does if somebody else confirms the restriction, or if its author restricts only themselves.
    """
    if request.restricted_ids == frozenset({message.author_id}):
        return True
    others = frozenset({message.author_id, *request.restricted_ids})
    return any(
        scope.is_ongoing
        and scope.restricted_ids is not None
        and scope.restricted_ids & request.restricted_ids
        and scope.requester_id not in others
        for scope in earlier
    ) or any(
        each.author_id not in others
        and _restricts_same_people(each, request.restricted_ids, before, name_index)
        for each in before[-RECENT:]
    )


def _restricts_same_people(
    message: RoomMessage,
    participant_ids: frozenset[ParticipantId],
    before: Sequence[RoomMessage],
    name_index: NameIndex,
) -> bool:
    """Return whether a message restricts the same people.

    The message names them. If it names nobody, they were mentioned just before it.
    """
    if not states_restriction(message.body):
        return False
    request = recognise(message.body, message.author_id, name_index)
    named = (
        request.restricted_ids
        if request is not None and request.kind == "restrict"
        else mentioned_ids(without_quoted_lines(message.body), name_index)
    )
    if named:
        return bool(named & participant_ids)
    index = bisect_left(before, message.position, key=lambda each: each.position)
    for each in reversed(before[max(index - RECENT, 0) : index]):
        mentioned = {each.author_id, *mentioned_ids(without_quoted_lines(each.body), name_index)} - {
            message.author_id
        }
        if mentioned:
            return bool(mentioned & participant_ids)
    return False


def _is_restricted(scope: RequestScope, message: RoomMessage) -> bool:
    if scope.author_ids is not None and message.author_id not in scope.author_ids:
        return False
    topics = topics_of(message.body)
    if scope.denied:
        return bool(topics & scope.denied)
    return not (topics & scope.allowed and not topics & (_SENSITIVE_TOPICS - scope.allowed))


#: Topics that are visible only if they are allowed explicitly, even if the message also has an allowed topic.
_SENSITIVE_TOPICS = frozenset(
    {"health", "contact", "money", "credentials", "customer", "contract", "incident"}
)


def _present_ids(
    message: RoomMessage, before: Sequence[RoomMessage], about: Sequence[MessageId], name_index: NameIndex
) -> frozenset[ParticipantId]:
    """Return the people who saw a confidential message.

    These are the author and the people who were present, mentioned or replied to. If nobody was addressed, the last
    other participant who wrote before the message counts as replied to. An ambiguous name exempts nobody. Presence
    alone does not exempt an agent, because agents may repeat what they recall.
    """
    by_id: Mapping[MessageId, RoomMessage] = {each.id: each for each in before[-MAX_DISTANCE:]}
    confided = [message, *(by_id[key] for key in about if key in by_id)]
    is_addressed = any(mentioned_ids(each.body, name_index) for each in confided)
    unambiguous = name_index.unambiguous()
    mentioned = {one for each in confided for one in mentioned_ids(each.body, unambiguous)}
    replied_to = {
        by_id[each.reply_to].author_id for each in confided if each.reply_to and each.reply_to in by_id
    }
    first = min(each.position for each in confided)
    others = [each for each in before[-MAX_DISTANCE:] if each.author_id != message.author_id]
    if not is_addressed and not replied_to:
        replied_to = set([each.author_id for each in others if each.position < first][-1:])
    present = {
        each.author_id
        for each in others
        if each.author_kind != "agent" and first[0] - each.sent_at <= PRESENCE_WINDOW
    }
    return frozenset({message.author_id, *mentioned, *replied_to, *present})


# Other content of the message


def states_replacement(body: str) -> bool:
    """Return whether a message that asks to forget something also states what is true instead."""
    body = with_straight_apostrophes(without_quoted_lines(body)[:MAX_REQUEST_LENGTH])
    clauses = _CLAUSE.split(body)
    rest = [clause for clause in clauses if not patterns.FORGET_WORDS.search(clause.lower())]
    if len(rest) == len(clauses) or _SAYS_IT_AGAIN.search(body):
        # The rules detect no request in this text, so the rest of the message cannot be separated from the request.
        return False
    return any(
        not clause.rstrip().endswith("?") and len(TOKEN.findall(clause)) > 2 and _STATES.search(clause)  # noqa: PLR2004
        for clause in rest
    )
