"""Resolves what a privacy request covers, and matches messages against it.

A request always covers its author's own messages. It covers messages of others only if they repeat a secret: a
distinctive value that its first author wants forgotten (or an agent for them) or marked as confidential, an alias
told in confidence, or a credential that was called one. A name is no secret: naming something first gives no
rights over what others say about it. A restriction covers the messages of its author; it covers everybody's if a
second person or an agent confirms it, or if people restrict themselves.
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

#: A request without a subject refers at most so many messages back.
MAX_DISTANCE = 40
#: An agent's record refers to a request within so many messages before it.
RECENT = 6
#: A name in more messages than these is a topic of the room, not a secret.
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

#: Whoever wrote within this time before a message was present.
PRESENCE_WINDOW = timedelta(days=1)
_CLAUSE = lazy_pattern(r"(?<=[.!?])\s|[\n;:]|,\s|\s[-\u2013\u2014]\s")
#: A statement contains one of these verbs, or code.
_STATES = lazy_pattern(
    r"\b(?:is|are|was|were|am|be|will|can|should|must|use|let's|have|has|had|do|does|did|run|try|go|take|meet|see|means?|needs?|"
    r"starts?|begins?|ends?|goes|comes?|opens?|closes?|leaves?|arrives?|works?|costs?|moves?|stays?|lives?|runs?|stands?|hangs?|"
    r"belongs?|says|reads|makes|takes|gets?|got|keeps?|wants?|call|ask|put|send|pick|bring)\b"
    r"|'(?:s|re|m|ll|ve)\b|`",
    re.IGNORECASE,
)
#: The request repeats what is to be forgotten: "forget that I told you I am ill".
_SAYS_IT_AGAIN = lazy_pattern(
    r"\b(?:forget|pretend) (?:that )?i (?:ever |just )?(?:said|mentioned|told you|brought up) (?!that\b|this\b|it\b|anything\b)"
    r"|\b(?:forget|erase|delete) (?:that|how) (?:i|my)\b",
    re.IGNORECASE,
)

#: The maximum number of values of a request: those it names, then the most recent ones.
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
    """Return what a request covers; mostly its own message too, which has no other content.

    `room` holds the messages that it may cover, in order; those after the request do not count. `earlier` are the
    scopes of earlier requests, `common` the values that occur too often for `room` to hold all their messages,
    `present` the participants who were in the room by the platform's data.
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
        # Its message also states what holds from now on: do not hide that.
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
    """Return whether a request covers a message. It never hides a message from its own author."""
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
    """Return whether a message replies to a covered one although its author could know that it was confidential.

    An earlier reply was public: asking, then restricting the question must not hide the answer. `forget` does not
    extend to replies: those that repeat a value are covered anyway.
    """
    return (
        scope.kind != "forget"
        and message.reply_to in scope.target_ids
        and message.reply_to != scope.message_id
        and (message.author_id == scope.requester_id or message.position > scope.position)
    )


# Referenced messages


def messages_before(message: RoomMessage, room: Sequence[RoomMessage]) -> Sequence[RoomMessage]:
    """Return the messages before another one, of a room in order."""
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
    """Return the author's last uninterrupted run of messages."""
    turn: list[MessageId] = []
    for each in reversed(before[-MAX_DISTANCE:]):
        if each.author_id == message.author_id:
            turn.append(each.id)
        elif turn:
            break
    return turn


def _heard_by(participant_ids: frozenset[ParticipantId], before: Sequence[RoomMessage]) -> set[MessageId]:
    """Return the messages that these people evidently saw: they replied to them or got them as replies."""
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
    # Other values are hidden with their messages; common ones may be repeated by chance.
    distinctive = [value for value in reversed(repeated) if is_distinctive(value)]
    return list(dict.fromkeys([*request.identifiers, *distinctive]))[:MAX_VALUES]


def with_revealing_parts(values: Iterable[str]) -> list[str]:
    """Return the values, and the parts that reveal them."""
    return list(dict.fromkeys(part for value in values for part in (value, *revealing_parts(value))))


def _value_owners(
    request: PrivacyRequest,
    message: RoomMessage,
    before: Sequence[RoomMessage],
    earlier: Iterable[RequestScope],
) -> set[ParticipantId]:
    """Return whose values may be forgotten: the author's; for an agent's record, those of the recent requester."""
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
    """Return the values that these people may hide in everybody's messages, with the parts that reveal them."""
    hideable: list[str] = []
    for value in values:
        holders = _messages_saying(value, before)
        if value in common or not holders or not _is_secret(value, holders, owners):
            continue
        # A part that occurred before the whole value is something else.
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
    """Return the messages with a value, in order, without leading requests to forget it: these give no ownership."""
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
    """Return whether a restriction covers everybody's messages: somebody else confirms it."""
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
    """Return whether a message restricts these people: by name, or else the people mentioned just before."""
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


#: Topics that need an explicit permission, even beside an allowed one.
_SENSITIVE_TOPICS = frozenset(
    {"health", "contact", "money", "credentials", "customer", "contract", "incident"}
)


def _present_ids(
    message: RoomMessage, before: Sequence[RoomMessage], about: Sequence[MessageId], name_index: NameIndex
) -> frozenset[ParticipantId]:
    """Return who saw something: people who were present, mentioned or replied to, or who wrote last before it.

    An ambiguous name exempts nobody. An agent is exempt only if it was addressed: agents may repeat what they
    recall.
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
    """Return whether a message that wants something forgotten also states what holds instead."""
    body = with_straight_apostrophes(without_quoted_lines(body)[:MAX_REQUEST_LENGTH])
    clauses = _CLAUSE.split(body)
    rest = [clause for clause in clauses if not patterns.FORGET_WORDS.search(clause.lower())]
    if len(rest) == len(clauses) or _SAYS_IT_AGAIN.search(body):
        # No rule detects the request here, so the rest cannot be told from it.
        return False
    return any(
        not clause.rstrip().endswith("?") and len(TOKEN.findall(clause)) > 2 and _STATES.search(clause)  # noqa: PLR2004
        for clause in rest
    )
