"""What a wish covers: settled once from what was said before it, then asked of each message by itself.

Whose wish counts for which words: one's own always. Of others' words those that repeat a value that its own first
sayer wants forgotten, that is a key or a password, or that its first sayer had marked as not for everybody. A
restriction counts for the words of whoever states it; for everybody's once a second person or an agent puts it on
record, or somebody restricts themselves.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.wishes.marks import TOKEN, found_in, is_credential, marks_of, strong_values
from roomlore.wishes.matters import matters
from roomlore.wishes.parties import Circle, parties
from roomlore.wishes.recogniser import forgets, heard, is_confidential, restricts
from roomlore.wishes.records import Reach, Said, Wish

#: So far back a wish that names nothing may point.
FAR = 40
#: So shortly before a record of a restriction somebody must have stated it.
NEAR = 6
#: A name that more messages have than these, and more than one in ten, is what the room is about.
COMMON = 8

_SMALL = frozenset(
    [
        "the",
        "and",
        "for",
        "with",
        "that",
        "this",
        "what",
        "from",
        "about",
        "into",
        "onto",
        "over",
        "your",
        "have",
        "has",
        "had",
        "was",
        "were",
        "are",
        "been",
        "being",
        "not",
        "but",
        "our",
        "old",
        "new",
        "all",
        "any",
        "some",
        "just",
        "only",
        "also",
        "then",
        "than",
        "them",
        "they",
        "their",
        "there",
        "here",
        "his",
        "her",
        "him",
        "she",
        "who",
        "whom",
        "whose",
        "which",
        "when",
        "where",
        "said",
        "told",
        "mentioned",
        "note",
        "notes",
        "please",
        "tied",
        "related",
        "saved",
        "temporary",
        "deleted",
        "thing",
        "things",
        "stuff",
    ]
)


def settled(
    wish: Wish, voice: Said, room: Sequence[Said], *, circle: Circle, earlier: Iterable[Reach]
) -> Reach:
    """Return what a wish covers; at least the message that voices it, whose words are no content.

    Args:
        wish: What was heard.
        voice: The message that voices it.
        room: What was said in its room, in order; what comes after the voice does not count.
        circle: Who takes part.
        earlier: What earlier wishes of the room cover.
    """
    before = room[: bisect_left(room, voice.position, key=lambda said: said.position)]
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
            if _is_seconded(wish, voice, before, circle=circle, earlier=earlier)
            else frozenset({voice.author_id}),
        )
    about = _about(wish, voice, before)
    if wish.kind == "forget":
        marks, own = _marks(wish, voice, before, about=about, earlier=earlier)
        return replace(reach, targets=frozenset({voice.id, *about}), marks=marks, own_marks=own)
    if wish.kind == "withhold":
        unheard = set(about) - _exchanged_with(wish.party_ids, before)
        return replace(reach, targets=frozenset({voice.id, *unheard}), from_ids=wish.party_ids)
    targets = frozenset({voice.id, *about})
    return replace(reach, targets=targets, spared_ids=_hearers(voice, before, about, circle))


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


def _about(wish: Wish, voice: Said, before: Sequence[Said]) -> list[MessageId]:
    """Return which of its author's own messages a wish means."""
    if wish.topic:
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
    wanted = _stems(topic)
    enough = min(len(wanted), 2)
    return [
        said.id
        for said in before
        if enough and said.author_id == voice.author_id and len(wanted & _stems(said.body)) >= enough
    ]


def _stems(text: str) -> frozenset[str]:
    words = (token.casefold() for token in TOKEN.findall(text))
    return frozenset(word[:5].rstrip("s") for word in words if len(word) > 2 and word not in _SMALL)  # noqa: PLR2004


# Whose values they are


def _marks(
    wish: Wish, voice: Said, before: Sequence[Said], *, about: Sequence[MessageId], earlier: Iterable[Reach]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the marks of values that nobody is to be shown, and of those that cover only its author's words."""
    chosen = set(about)
    if wish.points_back and voice.reply_to is not None:
        chosen.add(voice.reply_to)
    repeated = [value for said in before if said.id in chosen for value in strong_values(said.body)]
    wishers = (
        {one.wisher_id for one in earlier if one.kind == "forget"} if wish.is_record else set[ParticipantId]()
    )
    everywhere: list[str] = []
    own: list[str] = []
    for value in dict.fromkeys([*wish.values, *repeated]):
        marks = marks_of([value])
        holders = [said for said in before if found_in(said.body, marks)]
        if not _is_distinctive(value, holders, before):
            continue
        (everywhere if _may_forget(value, voice, holders, wishers) else own).append(value)
    return marks_of(everywhere), marks_of(own)


def _is_distinctive(value: str, holders: Sequence[Said], before: Sequence[Said]) -> bool:
    if any(sign.isdigit() for sign in value):
        return True
    return len(holders) <= max(COMMON, len(before) // 10)


def _may_forget(value: str, voice: Said, holders: Sequence[Said], wishers: set[ParticipantId]) -> bool:
    """Return whether the voice may have a value forgotten whoever says it.

    What nobody has said is nobody's to hide, a key neither; and who only wishes it forgotten has not said it.
    """
    first = next((said for said in holders if not forgets(said.body)), None)
    if first is None:
        return False
    return (
        is_credential(value) or first.author_id in {voice.author_id, *wishers} or is_confidential(first.body)
    )


# Restrictions


def _is_seconded(
    wish: Wish, voice: Said, before: Sequence[Said], *, circle: Circle, earlier: Iterable[Reach]
) -> bool:
    """Return whether a restriction counts for everybody's words: not whoever states it alone wants it so."""
    if wish.party_ids == frozenset({voice.author_id}) or voice.author_kind == "agent":
        return True
    others = frozenset({voice.author_id, *wish.party_ids})
    return any(
        one.is_standing
        and one.from_ids is not None
        and one.from_ids & wish.party_ids
        and one.wisher_id not in others
        for one in earlier
    ) or any(
        said.author_id not in others and _restricts(said, wish.party_ids, before, circle)
        for said in before[-NEAR:]
    )


def _restricts(
    said: Said, party_ids: frozenset[ParticipantId], before: Sequence[Said], circle: Circle
) -> bool:
    """Return whether a message restricts these: by name, or without one where it was of them just before."""
    if not restricts(said.body):
        return False
    wish = heard(said.body, said.author_id, circle)
    named = wish.party_ids if wish is not None and wish.kind == "withhold" else parties(said.body, circle)
    if named:
        return bool(named & party_ids)
    place = bisect_left(before, said.position, key=lambda one: one.position)
    for one in reversed(before[max(place - NEAR, 0) : place]):
        meant = {one.author_id, *parties(one.body, circle)} - {said.author_id}
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
    voice: Said, before: Sequence[Said], about: Sequence[MessageId], circle: Circle
) -> frozenset[ParticipantId]:
    """Return whom something was said to: whoever is named, answered, or spoke last before."""
    by_id: Mapping[MessageId, Said] = {said.id: said for said in before[-FAR:]}
    told = [voice, *(by_id[key] for key in about if key in by_id)]
    named = {one for said in told for one in parties(said.body, circle)}
    answered = {by_id[said.reply_to].author_id for said in told if said.reply_to and said.reply_to in by_id}
    if not named and not answered:
        opening = min(said.position for said in told)
        others = [
            said.author_id
            for said in before[-FAR:]
            if said.position < opening and said.author_id != voice.author_id
        ]
        answered = set(others[-1:])
    return frozenset({voice.author_id, *named, *answered})
