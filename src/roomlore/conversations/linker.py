"""Goes through a room and gives each message the one it answers.

What comes of a message follows from it and the last WINDOW messages with their parents, nothing else: whoever starts
again with those goes on exactly as if never stopped.
"""

from collections.abc import Iterable

from roomlore.conversations import reply_model
from roomlore.conversations.features import FeatureExtractor
from roomlore.conversations.records import ConversationMessage, ReplyLink
from roomlore.conversations.reply_model import ReplyModel
from roomlore.conversations.window import WINDOW, ParsedMessage, Window
from roomlore.domain.ids import MessageId

__all__ = ["WINDOW", "ReplyLinker", "link_all"]


class ReplyLinker:
    """Links the messages of one room, in order; holds its last WINDOW messages."""

    def __init__(self, model: ReplyModel | None = None) -> None:
        """Start with nothing heard; without a model the one that ships is used."""
        self._model = model or reply_model.load()
        self._window = Window(self._model.lexicon)
        self._eye = FeatureExtractor(self._window)

    def remember(self, said: ConversationMessage, parent_id: MessageId | None) -> None:
        """Take in a message whose parent was decided before."""
        self._window.add(self._window.parse(said), parent_id)

    def link(self, said: ConversationMessage) -> ReplyLink:
        """Return what a message answers, and remember it."""
        heard = self._window.parse(said)
        linked = self._platform_link(heard) or self._predicted_link(heard)
        self._window.add(heard, linked.parent_id)
        return linked

    def _platform_link(self, heard: ParsedMessage) -> ReplyLink | None:
        said = heard.message
        parent, method = (said.reply_to, "explicit") if said.reply_to else (said.thread_root, "thread")
        if parent is None or parent == said.id:
            return None
        found, _ = self._window.mentioned_by(heard, self._window.slot_of(said.author_id))
        addressed = said.mentions.union(found.values())
        return ReplyLink(id=said.id, parent_id=parent, method=method, confidence=1.0, addressed_ids=addressed)

    def _predicted_link(self, heard: ParsedMessage) -> ReplyLink:
        model, said = self._model, heard.message
        seen = self._eye.extract(heard)
        scores = model.scores(seen)
        place = model.choose(scores, seen.conversations)
        confidence = min(float(model.probabilities(scores)[place]), 1.0)
        addressed = seen.addressed_ids | said.mentions
        if place == WINDOW:
            return ReplyLink(
                id=said.id, parent_id=None, method=None, confidence=confidence, addressed_ids=addressed
            )
        parent = self._window.at(place).message
        return ReplyLink(
            id=said.id,
            parent_id=parent.id,
            method="mention" if parent.author_id in addressed else "inferred",
            confidence=confidence,
            addressed_ids=addressed,
        )


def link_all(said: Iterable[ConversationMessage], *, model: ReplyModel | None = None) -> list[ReplyLink]:
    """Return what each message of one room answers, in the order given."""
    linker = ReplyLinker(model)
    return [linker.link(each) for each in said]
