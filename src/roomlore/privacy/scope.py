"""What a wish covers: settled once from what was said before it, then asked of each message by itself.

Whose wish counts for which words: one's own always. Of others' words those that repeat a secret: a value that nobody
says by chance and that its own first sayer wants forgotten (or an agent on their behalf) or had marked as not for
everybody, an alias that was told in confidence, what is made like a key and was called one right where it stood. A
name is no secret: whoever names something first does not own what others say of it. A restriction counts for the words
of whoever states it; for everybody's once a second person or an agent puts it on record, or somebody restricts
themselves.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

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
    unquoted_lines,
)
from roomlore.privacy.records import PrivacyRequest, RequestScope, ScreenedMessage
from roomlore.privacy.topics import topics_of

#: So far back a wish that names nothing may point.
MAX_DISTANCE = 40
#: So shortly before a record of a wish somebody must have stated it.
RECENT = 6
#: A name that more messages have than these is no secret any more, and is what the room is about.
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

#: Whoever spoke in this time before something was said was there when it was.
PRESENCE_WINDOW = timedelta(days=1)
_CLAUSE = lazy_pattern(r"(?<=[.!?])\s|[\n;:]|,\s|\s[-\u2013\u2014]\s")
#: A statement has a verb of these, or shows code.
_STATES = lazy_pattern(
    r"\b(?:is|are|was|were|am|be|will|can|should|must|use|let's|have|has|had|do|does|did|run|try|go|take|meet|see|means?|needs?|"
    r"starts?|begins?|ends?|goes|comes?|opens?|closes?|leaves?|arrives?|works?|costs?|moves?|stays?|lives?|runs?|stands?|hangs?|"
    r"belongs?|says|reads|makes|takes|gets?|got|keeps?|wants?|call|ask|put|send|pick|bring)\b"
    r"|'(?:s|re|m|ll|ve)\b|`",
    re.IGNORECASE,
)
#: What is to be forgotten stands in the request itself: "forget that I told you I am ill".
_SAYS_IT_AGAIN = lazy_pattern(
    r"\b(?:forget|pretend) (?:that )?i (?:ever |just )?(?:said|mentioned|told you|brought up) (?!that\b|this\b|it\b|anything\b)"
    r"|\b(?:forget|erase|delete) (?:that|how) (?:i|my)\b",
    re.IGNORECASE,
)

#: So many values a wish is about at most: those it names, and then those that were said last.
MAX_VALUES = 32


def resolve_scope(
    request: PrivacyRequest,
    message: ScreenedMessage,
    room: Sequence[ScreenedMessage],
    *,
    name_index: NameIndex,
    earlier: Collection[RequestScope],
    common: Collection[str] = (),
    present: Collection[ParticipantId] = (),
) -> RequestScope:
    """Return what a wish covers; mostly also the message that voices it, whose words are no content.

    Args:
        request: What was heard.
        message: The message that voices it.
        room: What was said in its room, in order, as much of it as the wish may be about (see `looking`); what comes
            after the voice does not count.
        name_index: Who takes part.
        earlier: What earlier wishes of the room cover.
        common: Values that are said so often that not all who say them are in `room`.
        present: Who was in the room when it was said, as far as the platform tells.
    """
    before = messages_before(message, room)
    reach = RequestScope(
        message_id=message.id,
        requester_id=message.author_id,
        kind=request.kind,
        position=message.position,
        target_ids=frozenset({message.id}),
    )
    if request.kind == "withhold" and request.is_ongoing:
        return replace(
            reach,
            is_ongoing=True,
            restricted_ids=request.restricted_ids,
            allowed=request.allowed,
            denied=request.denied,
            author_ids=None
            if _is_confirmed_by_others(request, message, before, people=name_index, earlier=earlier)
            else frozenset({message.author_id}),
        )
    about = referenced_messages(request, message, before)
    if request.kind == "forget":
        values = request_values(request, message, before, about=about)
        secrets = _hideable_values(
            values, before, _value_owners(request, message, before, earlier), common=common
        )
        # What holds from now on, and stands in the same message, is not to be forgotten.
        return replace(
            reach,
            target_ids=frozenset(about if states_replacement(message.body) else [message.id, *about]),
            digests=digests_of(secrets),
            author_digests=digests_of(
                with_revealing_parts(one for one in values if _is_rare_value(one, before, common))
            )
            - digests_of(secrets),
        )
    if request.kind == "withhold":
        unheard = set(about) - _heard_by(request.restricted_ids, before)
        return replace(
            reach, target_ids=frozenset({message.id, *unheard}), restricted_ids=request.restricted_ids
        )
    targets = frozenset({message.id, *about})
    return replace(
        reach,
        target_ids=targets,
        exempt_ids=_present_ids(message, before, about, name_index) | frozenset(present),
    )


def covers(scope: RequestScope, said: ScreenedMessage) -> bool:
    """Return whether a wish covers a message; what somebody said themselves is kept from nobody by that name."""
    if scope.restricted_ids is not None and said.author_id in scope.restricted_ids:
        return False
    if said.id in scope.target_ids:
        return True
    if scope.is_ongoing:
        return _is_restricted(scope, said)
    if _answers_later(scope, said):
        return True
    if said.author_id == scope.requester_id and contains_any(said.body, scope.author_digests):
        return True
    return contains_any(said.body, scope.digests)


def _answers_later(reach: RequestScope, said: ScreenedMessage) -> bool:
    """Return whether a message answers what, as its author could know, was not for everybody any more.

    Whoever answered before has answered everybody: to ask and then to take the question back keeps no answer from
    anybody. Nor is an answer forgotten with what it answers: what repeats it has its values.
    """
    return (
        reach.kind != "forget"
        and said.reply_to in reach.target_ids
        and said.reply_to != reach.message_id
        and (said.author_id == reach.requester_id or said.position > reach.position)
    )


# What a wish that names little is about


def messages_before(voice: ScreenedMessage, room: Sequence[ScreenedMessage]) -> Sequence[ScreenedMessage]:
    """Return what was said before a message, of a room in order."""
    return room[: bisect_left(room, voice.position, key=lambda said: said.position)]


def referenced_messages(
    request: PrivacyRequest, voice: ScreenedMessage, before: Sequence[ScreenedMessage]
) -> list[MessageId]:
    """Return which of its author's own messages a wish means without naming a value of them."""
    if word_stems(request.subject):
        return _on_topic(request.subject, voice, before)
    if not request.refers_back:
        return []
    if voice.reply_to is not None:
        return [said.id for said in before if said.id == voice.reply_to and said.author_id == voice.author_id]
    return _previous_turn(voice, before)


def _previous_turn(voice: ScreenedMessage, before: Sequence[ScreenedMessage]) -> list[MessageId]:
    """Return what the author said last without anybody in between."""
    turn: list[MessageId] = []
    for said in reversed(before[-MAX_DISTANCE:]):
        if said.author_id == voice.author_id:
            turn.append(said.id)
        elif turn:
            break
    return turn


def _heard_by(party_ids: frozenset[ParticipantId], before: Sequence[ScreenedMessage]) -> set[MessageId]:
    """Return what some evidently heard: what answers them, and what they answered."""
    theirs = {said.id for said in before if said.author_id in party_ids}
    answering = {said.id for said in before if said.reply_to in theirs}
    return answering | {said.reply_to for said in before if said.id in theirs and said.reply_to is not None}


def _on_topic(topic: str, voice: ScreenedMessage, before: Sequence[ScreenedMessage]) -> list[MessageId]:
    wanted = word_stems(topic)
    enough = min(len(wanted), 2)
    return [
        said.id
        for said in before
        if said.author_id == voice.author_id and len(wanted & word_stems(said.body)) >= enough
    ]


def word_stems(text: str) -> frozenset[str]:
    """Return how the telling words of a text begin, in small letters."""
    words = (token.lower() for token in TOKEN.findall(text))
    return frozenset(word[:5].rstrip("s") for word in words if len(word) > 2 and word not in _SMALL)  # noqa: PLR2004


# Whose values they are


def request_values(
    wish: PrivacyRequest,
    voice: ScreenedMessage,
    before: Sequence[ScreenedMessage],
    *,
    about: Collection[MessageId],
) -> list[str]:
    """Return the values that a wish is about."""
    chosen = {*about, voice.reply_to} if wish.refers_back else set(about)
    repeated = [value for said in before if said.id in chosen for value in distinctive_values(said.body)]
    # The rest is covered where it stands, and what others say by chance is theirs.
    telling = [value for value in reversed(repeated) if is_distinctive(value)]
    return list(dict.fromkeys([*wish.identifiers, *telling]))[:MAX_VALUES]


def with_revealing_parts(values: Iterable[str]) -> list[str]:
    """Return values, and the pieces that give them away."""
    return list(dict.fromkeys(piece for value in values for piece in (value, *revealing_parts(value))))


def _value_owners(
    wish: PrivacyRequest,
    voice: ScreenedMessage,
    before: Sequence[ScreenedMessage],
    earlier: Iterable[RequestScope],
) -> set[ParticipantId]:
    """Return whose values a wish may forget: its author's; and where an agent records one, whose it was just before."""
    if not wish.is_record or voice.author_kind != "agent":
        return {voice.author_id}
    near = {said.id for said in before[-RECENT:] if said.author_id != voice.author_id}
    asked = [one for one in earlier if one.kind == "forget" and one.message_id in near]
    last = max(asked, key=lambda one: one.position, default=None)
    return {voice.author_id} if last is None else {voice.author_id, last.requester_id}


def _hideable_values(
    values: Iterable[str],
    before: Sequence[ScreenedMessage],
    owners: Collection[ParticipantId],
    *,
    common: Collection[str],
) -> list[str]:
    """Return those of some values that these people may have forgotten whoever says them, and what gives them away."""
    found: list[str] = []
    for value in values:
        holders = _messages_saying(value, before)
        if value in common or not holders or not _is_secret(value, holders, owners):
            continue
        # a piece that was said before the whole is something else
        rest = [
            one
            for one in revealing_parts(value)
            if one not in common and _messages_saying(one, before)[:1] == holders[:1]
        ]
        found += [value, *rest]
    return found


def _is_rare_value(value: str, before: Sequence[ScreenedMessage], common: Collection[str]) -> bool:
    if any(sign.isdigit() for sign in value):
        return True
    return value not in common and len(_messages_saying(value, before)) <= MAX_SECRET_USES


def _is_secret(value: str, holders: Sequence[ScreenedMessage], owners: Collection[ParticipantId]) -> bool:
    first = holders[0]
    if is_credential(value, first.body):
        return True
    if is_distinctive(value):
        return first.author_id in owners or is_confidential(first.body)
    return len(holders) <= MAX_SECRET_USES and is_confidential(first.body) and is_alias(value, first.body)


def _messages_saying(value: str, before: Sequence[ScreenedMessage]) -> list[ScreenedMessage]:
    """Return who said a value, in order: what nobody has said, or only wished forgotten, is nobody's to hide."""
    marks = digests_of([value])
    found = [said for said in before if contains_any(said.body, marks)]
    first = next((place for place, said in enumerate(found) if not asks_to_forget(said.body)), len(found))
    return found[first:]


# Restrictions


def _is_confirmed_by_others(
    wish: PrivacyRequest,
    voice: ScreenedMessage,
    before: Sequence[ScreenedMessage],
    *,
    people: NameIndex,
    earlier: Collection[RequestScope],
) -> bool:
    """Return whether a restriction counts for everybody's words: not whoever states it alone wants it so."""
    if wish.restricted_ids == frozenset({voice.author_id}):
        return True
    others = frozenset({voice.author_id, *wish.restricted_ids})
    return any(
        one.is_ongoing
        and one.restricted_ids is not None
        and one.restricted_ids & wish.restricted_ids
        and one.requester_id not in others
        for one in earlier
    ) or any(
        said.author_id not in others and _restricts_same_people(said, wish.restricted_ids, before, people)
        for said in before[-RECENT:]
    )


def _restricts_same_people(
    said: ScreenedMessage,
    party_ids: frozenset[ParticipantId],
    before: Sequence[ScreenedMessage],
    people: NameIndex,
) -> bool:
    """Return whether a message restricts these: by name, or without one where it was of them just before."""
    if not states_restriction(said.body):
        return False
    wish = recognise(said.body, said.author_id, people)
    named = (
        wish.restricted_ids
        if wish is not None and wish.kind == "withhold"
        else mentioned_ids(unquoted_lines(said.body), people)
    )
    if named:
        return bool(named & party_ids)
    place = bisect_left(before, said.position, key=lambda one: one.position)
    for one in reversed(before[max(place - RECENT, 0) : place]):
        meant = {one.author_id, *mentioned_ids(unquoted_lines(one.body), people)} - {said.author_id}
        if meant:
            return bool(meant & party_ids)
    return False


def _is_restricted(reach: RequestScope, said: ScreenedMessage) -> bool:
    if reach.author_ids is not None and said.author_id not in reach.author_ids:
        return False
    about = topics_of(said.body)
    if reach.denied:
        return bool(about & reach.denied)
    return not (about & reach.allowed and not about & (_SENSITIVE_TOPICS - reach.allowed))


#: What is let through only where it is permitted by name, even beside what is.
_SENSITIVE_TOPICS = frozenset(
    {"health", "contact", "money", "credentials", "customer", "contract", "incident"}
)


def _present_ids(
    voice: ScreenedMessage, before: Sequence[ScreenedMessage], about: Sequence[MessageId], people: NameIndex
) -> frozenset[ParticipantId]:
    """Return who heard something: whoever was there already, is named or answered, or spoke last before.

    Whom a name means that several bear nobody knows: then it is none of them. What agents recall they may tell others:
    of these it is only those it was said to.
    """
    by_id: Mapping[MessageId, ScreenedMessage] = {said.id: said for said in before[-MAX_DISTANCE:]}
    told = [voice, *(by_id[key] for key in about if key in by_id)]
    is_addressed = any(mentioned_ids(said.body, people) for said in told)
    sure = people.unambiguous()
    named = {one for said in told for one in mentioned_ids(said.body, sure)}
    answered = {by_id[said.reply_to].author_id for said in told if said.reply_to and said.reply_to in by_id}
    opening = min(said.position for said in told)
    others = [said for said in before[-MAX_DISTANCE:] if said.author_id != voice.author_id]
    if not is_addressed and not answered:
        answered = set([said.author_id for said in others if said.position < opening][-1:])
    there = {
        said.author_id
        for said in others
        if said.author_kind != "agent" and opening[0] - said.sent_at <= PRESENCE_WINDOW
    }
    return frozenset({voice.author_id, *named, *answered, *there})


# What a message says besides its wish


def states_replacement(body: str) -> bool:
    """Return whether a message that wants something forgotten also says what holds instead."""
    body = with_straight_apostrophes(unquoted_lines(body)[:MAX_REQUEST_LENGTH])
    clauses = _CLAUSE.split(body)
    rest = [clause for clause in clauses if not patterns.FORGET_WORDS.search(clause.lower())]
    if len(rest) == len(clauses) or _SAYS_IT_AGAIN.search(body):
        # Where no rule hears a wish, none tells what else is said either.
        return False
    return any(
        not clause.rstrip().endswith("?") and len(TOKEN.findall(clause)) > 2 and _STATES.search(clause)  # noqa: PLR2004
        for clause in rest
    )
