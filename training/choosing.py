"""Chooses on rooms not trained on how sure the model may be, and how easily a message starts a conversation."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roomlore.conversations.features import FeatureExtractor
from roomlore.conversations.reply_linker import link_all
from roomlore.conversations.reply_model import ReplyModel
from roomlore.conversations.window import WINDOW, Window
from roomlore.domain.ids import MessageId
from training.rooms import TrainingRoom

_TEMPERATURES = (0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5)
_BONUSES = (-1.2, -0.9, -0.6, -0.3, 0.0, 0.3)


def chosen(model: ReplyModel, rooms: list[TrainingRoom]) -> ReplyModel:
    """Return the model with the bonus of the best conversations, then the temperature of the least surprise."""
    bonus = max(_BONUSES, key=lambda each: quality(replace(model, start_bonus=each), rooms))
    model = replace(model, start_bonus=bonus)
    return replace(
        model,
        temperature=min(_TEMPERATURES, key=lambda each: surprise(replace(model, temperature=each), rooms)),
    )


def quality(model: ReplyModel, rooms: list[TrainingRoom]) -> float:
    """Return the F-measure of replies and that of conversations found whole, averaged."""
    return (replies_found(model, rooms) + wholes_found(model, rooms)) / 2


def replies_found(model: ReplyModel, rooms: list[TrainingRoom]) -> float:
    """Return the F-measure of links, a start counting as a link to itself."""
    right = found = known = 0
    for room in rooms:
        for line, linked in zip(
            room.lines, link_all((line.said for line in room.lines), model=model), strict=True
        ):
            if line.judged:
                truth = line.parents or {line.said.id}
                right += (linked.parent_id or line.said.id) in truth
                found += 1
                known += len(truth)
    return 2 * right / (found + known)


def wholes_found(model: ReplyModel, rooms: list[TrainingRoom]) -> float:
    """Return the F-measure of conversations of two messages or more that are found exactly."""
    right = found = known = 0
    for room in rooms:
        linked = link_all((line.said for line in room.lines), model=model)
        truth = _wholes(room, [line.parents for line in room.lines])
        mine = _wholes(room, [frozenset({each.parent_id} if each.parent_id else ()) for each in linked])
        right, found, known = right + len(truth & mine), found + len(mine), known + len(truth)
    return 2 * right / (found + known) if right else 0.0


def _wholes(room: TrainingRoom, parents: Sequence[frozenset[MessageId]]) -> set[frozenset[int]]:
    places = {line.said.id: place for place, line in enumerate(room.lines)}
    top = list(range(len(places)))

    def first(place: int) -> int:
        while top[place] != place:
            place = top[place]
        return place

    for place, above in enumerate(parents):
        for parent in above:
            if room.lines[place].judged and parent in places:
                top[first(place)] = first(places[parent])
    whole: dict[int, set[int]] = {}
    for place, line in enumerate(room.lines):
        if line.judged:
            whole.setdefault(first(place), set()).add(place)
    return {frozenset(each) for each in whole.values() if len(each) > 1}


def surprise(model: ReplyModel, rooms: list[TrainingRoom]) -> float:
    """Return minus the mean logarithm of the share given to right answers."""
    losses: list[float] = []
    for room in rooms:
        window = Window(model.lexicon)
        eye = FeatureExtractor(window)
        for line in room.lines:
            heard = window.parse(line.said)
            seen = eye.extract(heard)
            scores = model.scores(seen)
            if line.judged:
                shares = model.probabilities(scores)
                places = [window.position_of(parent) for parent in line.parents] if line.parents else [WINDOW]
                losses.append(
                    -np.log(max(sum(float(shares[place]) for place in places if place is not None), 1e-9))
                )
            best = model.choose(scores, seen.conversations)
            window.add(heard, None if best == WINDOW else window.at(best).message.id)
    return float(np.mean(losses))
