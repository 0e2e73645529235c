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
from roomlore.domain.patterns import later
from roomlore.wishes import cues
from roomlore.wishes.marks import (
    TOKEN,
    found_in,
    is_alias,
    is_credential,
    is_telling,
    marks_of,
    parts,
    straight,
    strong_values,
)
from roomlore.wishes.matters import matters
from roomlore.wishes.parties import People, parties
from roomlore.wishes.recogniser import LONGEST, forgets, heard, is_confidential, own_lines, restricts
from roomlore.wishes.records import Reach, Said, Wish

#: So far back a wish that names nothing may point.
FAR = 40
#: So shortly before a record of a wish somebody must have stated it.
NEAR = 6
#: A name that more messages have than these is no secret any more, and is what the room is about.
COMMON = 8

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
SAME_TALK = timedelta(days=1)
_CLAUSE = later(r"(?<=[.!?])\s|[\n;:]|,\s|\s[-\u2013\u2014]\s")
#: A statement has a verb of these, or shows code.
_STATES = later(
    r"\b(?:is|are|was|were|am|be|will|can|should|must|use|let's|have|has|had|do|does|did|run|try|go|take|meet|see|means?|needs?|"
    r"starts?|begins?|ends?|goes|comes?|opens?|closes?|leaves?|arrives?|works?|costs?|moves?|stays?|lives?|runs?|stands?|hangs?|"
    r"belongs?|says|reads|makes|takes|gets?|got|keeps?|wants?|call|ask|put|send|pick|bring)\b"
    r"|'(?:s|re|m|ll|ve)\b|`",
    re.IGNORECASE,
)
#: What is to be forgotten stands in the request itself: "forget that I told you I am ill".
_SAYS_IT_AGAIN = later(
    r"\b(?:forget|pretend) (?:that )?i (?:ever |just )?(?:said|mentioned|told you|brought up) (?!that\b|this\b|it\b|anything\b)"
    r"|\b(?:forget|erase|delete) (?:that|how) (?:i|my)\b",
    re.IGNORECASE,
)

#: So many values a wish is about at most: those it names, and then those that were said last.
MOST_VALUES = 32


def settled(
    wish: Wish,
    voice: Said,
    room: Sequence[Said],
    *,
    people: People,
    earlier: Collection[Reach],
    common: Collection[str] = (),
    present: Collection[ParticipantId] = (),
) -> Reach:
    """Return what a wish covers; mostly also the message that voices it, whose words are no content.

    Args:
        wish: What was heard.
        voice: The message that voices it.
        room: What was said in its room, in order, as much of it as the wish may be about (see `looking`); what comes
            after the voice does not count.
        people: Who takes part.
        earlier: What earlier wishes of the room cover.
        common: Values that are said so often that not all who say them are in `room`.
        present: Who was in the room when it was said, as far as the platform tells.
    """
    before = before_of(voice, room)
    reach = Reach(
        message_id=voice.id,
        wisher_id=voice.author_id,
        kind=wish.kind,
        position=voice.position,
        targets=frozenset({voice.id}),
    )
    if wish.kind == "withhold" and wish.is_standing:
        return replace(
            reach,
            is_standing=True,
            from_ids=wish.party_ids,
            permits=wish.permits,
            denies=wish.denies,
            of_ids=None
            if _is_seconded(wish, voice, before, people=people, earlier=earlier)
            else frozenset({voice.author_id}),
        )
    about = meant_by(wish, voice, before)
    if wish.kind == "forget":
        values = values_of(wish, voice, before, about=about)
        secrets = _secrets(values, before, _owners(wish, voice, before, earlier), common=common)
        # What holds from now on, and stands in the same message, is not to be forgotten.
        return replace(
            reach,
            targets=frozenset(about if adds_news(voice.body) else [voice.id, *about]),
            marks=marks_of(secrets),
            own_marks=marks_of(pieces(one for one in values if _is_distinctive(one, before, common)))
            - marks_of(secrets),
        )
    if wish.kind == "withhold":
        unheard = set(about) - _exchanged_with(wish.party_ids, before)
        return replace(reach, targets=frozenset({voice.id, *unheard}), from_ids=wish.party_ids)
    targets = frozenset({voice.id, *about})
    return replace(
        reach, targets=targets, spared_ids=_hearers(voice, before, about, people) | frozenset(present)
    )


def covers(reach: Reach, said: Said) -> bool:
    """Return whether a wish covers a message; what somebody said themselves is kept from nobody by that name."""
    if reach.from_ids is not None and said.author_id in reach.from_ids:
        return False
    if said.id in reach.targets:
        return True
    if reach.is_standing:
        return _is_restricted(reach, said)
    if _answers_knowingly(reach, said):
        return True
    if said.author_id == reach.wisher_id and found_in(said.body, reach.own_marks):
        return True
    return found_in(said.body, reach.marks)


def _answers_knowingly(reach: Reach, said: Said) -> bool:
    """Return whether a message answers what, as its author could know, was not for everybody any more.

    Whoever answered before has answered everybody: to ask and then to take the question back keeps no answer from
    anybody. Nor is an answer forgotten with what it answers: what repeats it has its values.
    """
    return (
        reach.kind != "forget"
        and said.reply_to in reach.targets
        and said.reply_to != reach.message_id
        and (said.author_id == reach.wisher_id or said.position > reach.position)
    )


# What a wish that names little is about


def before_of(voice: Said, room: Sequence[Said]) -> Sequence[Said]:
    """Return what was said before a message, of a room in order."""
    return room[: bisect_left(room, voice.position, key=lambda said: said.position)]


def meant_by(wish: Wish, voice: Said, before: Sequence[Said]) -> list[MessageId]:
    """Return which of its author's own messages a wish means without naming a value of them."""
    if stems(wish.topic):
        return _on_topic(wish.topic, voice, before)
    if not wish.points_back:
        return []
    if voice.reply_to is not None:
        return [said.id for said in before if said.id == voice.reply_to and said.author_id == voice.author_id]
    return _last_turn(voice, before)


def _last_turn(voice: Said, before: Sequence[Said]) -> list[MessageId]:
    """Return what the author said last without anybody in between."""
    turn: list[MessageId] = []
    for said in reversed(before[-FAR:]):
        if said.author_id == voice.author_id:
            turn.append(said.id)
        elif turn:
            break
    return turn


def _exchanged_with(party_ids: frozenset[ParticipantId], before: Sequence[Said]) -> set[MessageId]:
    """Return what some evidently heard: what answers them, and what they answered."""
    theirs = {said.id for said in before if said.author_id in party_ids}
    answering = {said.id for said in before if said.reply_to in theirs}
    return answering | {said.reply_to for said in before if said.id in theirs and said.reply_to is not None}


def _on_topic(topic: str, voice: Said, before: Sequence[Said]) -> list[MessageId]:
    wanted = stems(topic)
    enough = min(len(wanted), 2)
    return [
        said.id
        for said in before
        if said.author_id == voice.author_id and len(wanted & stems(said.body)) >= enough
    ]


def stems(text: str) -> frozenset[str]:
    """Return how the telling words of a text begin, in small letters."""
    words = (token.lower() for token in TOKEN.findall(text))
    return frozenset(word[:5].rstrip("s") for word in words if len(word) > 2 and word not in _SMALL)  # noqa: PLR2004


# Whose values they are


def values_of(wish: Wish, voice: Said, before: Sequence[Said], *, about: Collection[MessageId]) -> list[str]:
    """Return the values that a wish is about."""
    chosen = {*about, voice.reply_to} if wish.points_back else set(about)
    repeated = [value for said in before if said.id in chosen for value in strong_values(said.body)]
    # The rest is covered where it stands, and what others say by chance is theirs.
    telling = [value for value in reversed(repeated) if is_telling(value)]
    return list(dict.fromkeys([*wish.values, *telling]))[:MOST_VALUES]


def pieces(values: Iterable[str]) -> list[str]:
    """Return values, and the pieces that give them away."""
    return list(dict.fromkeys(piece for value in values for piece in (value, *parts(value))))


def _owners(wish: Wish, voice: Said, before: Sequence[Said], earlier: Iterable[Reach]) -> set[ParticipantId]:
    """Return whose values a wish may forget: its author's; and where an agent records one, whose it was just before."""
    if not wish.is_record or voice.author_kind != "agent":
        return {voice.author_id}
    near = {said.id for said in before[-NEAR:] if said.author_id != voice.author_id}
    asked = [one for one in earlier if one.kind == "forget" and one.message_id in near]
    last = max(asked, key=lambda one: one.position, default=None)
    return {voice.author_id} if last is None else {voice.author_id, last.wisher_id}


def _secrets(
    values: Iterable[str],
    before: Sequence[Said],
    owners: Collection[ParticipantId],
    *,
    common: Collection[str],
) -> list[str]:
    """Return those of some values that these people may have forgotten whoever says them, and what gives them away."""
    found: list[str] = []
    for value in values:
        holders = _holders(value, before)
        if value in common or not holders or not _is_secret(value, holders, owners):
            continue
        # a piece that was said before the whole is something else
        rest = [one for one in parts(value) if one not in common and _holders(one, before)[:1] == holders[:1]]
        found += [value, *rest]
    return found


def _is_distinctive(value: str, before: Sequence[Said], common: Collection[str]) -> bool:
    if any(sign.isdigit() for sign in value):
        return True
    return value not in common and len(_holders(value, before)) <= COMMON


def _is_secret(value: str, holders: Sequence[Said], owners: Collection[ParticipantId]) -> bool:
    first = holders[0]
    if is_credential(value, first.body):
        return True
    if is_telling(value):
        return first.author_id in owners or is_confidential(first.body)
    return len(holders) <= COMMON and is_confidential(first.body) and is_alias(value, first.body)


def _holders(value: str, before: Sequence[Said]) -> list[Said]:
    """Return who said a value, in order: what nobody has said, or only wished forgotten, is nobody's to hide."""
    marks = marks_of([value])
    found = [said for said in before if found_in(said.body, marks)]
    first = next((place for place, said in enumerate(found) if not forgets(said.body)), len(found))
    return found[first:]


# Restrictions


def _is_seconded(
    wish: Wish, voice: Said, before: Sequence[Said], *, people: People, earlier: Collection[Reach]
) -> bool:
    """Return whether a restriction counts for everybody's words: not whoever states it alone wants it so."""
    if wish.party_ids == frozenset({voice.author_id}):
        return True
    others = frozenset({voice.author_id, *wish.party_ids})
    return any(
        one.is_standing
        and one.from_ids is not None
        and one.from_ids & wish.party_ids
        and one.wisher_id not in others
        for one in earlier
    ) or any(
        said.author_id not in others and _restricts(said, wish.party_ids, before, people)
        for said in before[-NEAR:]
    )


def _restricts(
    said: Said, party_ids: frozenset[ParticipantId], before: Sequence[Said], people: People
) -> bool:
    """Return whether a message restricts these: by name, or without one where it was of them just before."""
    if not restricts(said.body):
        return False
    wish = heard(said.body, said.author_id, people)
    named = (
        wish.party_ids
        if wish is not None and wish.kind == "withhold"
        else parties(own_lines(said.body), people)
    )
    if named:
        return bool(named & party_ids)
    place = bisect_left(before, said.position, key=lambda one: one.position)
    for one in reversed(before[max(place - NEAR, 0) : place]):
        meant = {one.author_id, *parties(own_lines(one.body), people)} - {said.author_id}
        if meant:
            return bool(meant & party_ids)
    return False


def _is_restricted(reach: Reach, said: Said) -> bool:
    if reach.of_ids is not None and said.author_id not in reach.of_ids:
        return False
    about = matters(said.body)
    if reach.denies:
        return bool(about & reach.denies)
    return not (about & reach.permits and not about & (_GUARDED - reach.permits))


#: What is let through only where it is permitted by name, even beside what is.
_GUARDED = frozenset({"health", "contact", "money", "credentials", "customer", "contract", "incident"})


def _hearers(
    voice: Said, before: Sequence[Said], about: Sequence[MessageId], people: People
) -> frozenset[ParticipantId]:
    """Return who heard something: whoever was there already, is named or answered, or spoke last before.

    Whom a name means that several bear nobody knows: then it is none of them. What agents recall they may tell others:
    of these it is only those it was said to.
    """
    by_id: Mapping[MessageId, Said] = {said.id: said for said in before[-FAR:]}
    told = [voice, *(by_id[key] for key in about if key in by_id)]
    is_addressed = any(parties(said.body, people) for said in told)
    sure = people.sure()
    named = {one for said in told for one in parties(said.body, sure)}
    answered = {by_id[said.reply_to].author_id for said in told if said.reply_to and said.reply_to in by_id}
    opening = min(said.position for said in told)
    others = [said for said in before[-FAR:] if said.author_id != voice.author_id]
    if not is_addressed and not answered:
        answered = set([said.author_id for said in others if said.position < opening][-1:])
    there = {
        said.author_id
        for said in others
        if said.author_kind != "agent" and opening[0] - said.sent_at <= SAME_TALK
    }
    return frozenset({voice.author_id, *named, *answered, *there})


# What a message says besides its wish


def adds_news(body: str) -> bool:
    """Return whether a message that wants something forgotten also says what holds instead."""
    body = straight(own_lines(body)[:LONGEST])
    clauses = _CLAUSE.split(body)
    rest = [clause for clause in clauses if not cues.FORGETTING.search(clause.lower())]
    if len(rest) == len(clauses) or _SAYS_IT_AGAIN.search(body):
        # Where no rule hears a wish, none tells what else is said either.
        return False
    return any(
        not clause.rstrip().endswith("?") and len(TOKEN.findall(clause)) > 2 and _STATES.search(clause)  # noqa: PLR2004
        for clause in rest
    )
