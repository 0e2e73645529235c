"""Goes through a room and gives each message the one it answers.

What comes of a message follows from it and the last WINDOW messages with their parents, nothing else: whoever starts
again with those goes on exactly as if never stopped.
"""

from collections.abc import Iterable

from roomlore.domain.ids import MessageId
from roomlore.untangling import replymodel
from roomlore.untangling.features import Eye
from roomlore.untangling.records import Linked, Said
from roomlore.untangling.replymodel import ReplyModel
from roomlore.untangling.window import WINDOW, Heard, Window

__all__ = ["WINDOW", "Linker", "link_all"]


class Linker:
    """Links the messages of one room, in order; holds its last WINDOW messages."""

    def __init__(self, model: ReplyModel | None = None) -> None:
        """Start with nothing heard; without a model the one that ships is used."""
        self._model = model or replymodel.load()
        self._window = Window(self._model.lexicon)
        self._eye = Eye(self._window)

    def remember(self, said: Said, parent_id: MessageId | None) -> None:
        """Take in a message whose parent was decided before."""
        self._window.place(self._window.hear(said), parent_id)

    def link(self, said: Said) -> Linked:
        """Return what a message answers, and remember it."""
        heard = self._window.hear(said)
        linked = self._given(heard) or self._weighed(heard)
        self._window.place(heard, linked.parent_id)
        return linked

    def _given(self, heard: Heard) -> Linked | None:
        said = heard.said
        parent, method = (said.reply_to, "explicit") if said.reply_to else (said.thread_root, "thread")
        if parent is None or parent == said.id:
            return None
        found, _ = self._window.addressed(heard, self._window.slot_of(said.author_id))
        addressed = said.mentions.union(found.values())
        return Linked(id=said.id, parent_id=parent, method=method, confidence=1.0, addressed=addressed)

    def _weighed(self, heard: Heard) -> Linked:
        model, said = self._model, heard.said
        seen = self._eye.look(heard)
        scores = model.scores(seen)
        place = model.choose(scores, seen.conversations)
        confidence = min(float(model.shares(scores)[place]), 1.0)
        addressed = seen.addressed | said.mentions
        if place == WINDOW:
            return Linked(id=said.id, parent_id=None, method=None, confidence=confidence, addressed=addressed)
        parent = self._window.at(place).said
        return Linked(
            id=said.id,
            parent_id=parent.id,
            method="mention" if parent.author_id in addressed else "inferred",
            confidence=confidence,
            addressed=addressed,
        )


def link_all(said: Iterable[Said], *, model: ReplyModel | None = None) -> list[Linked]:
    """Return what each message of one room answers, in the order given."""
    linker = Linker(model)
    return [linker.link(each) for each in said]
