"""The task `exchanges`: whether a question lies in one exchange with what answers it.

People judged who answers whom, or only the conversations. A question is a message with a question mark; an answer is a
reply of somebody else without one. Where only conversations were judged, the next message of the conversation counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from evaluation.benchmark import BenchmarkRun, Outcome
from evaluation.clustering import connected
from evaluation.conversations import disentangled_messages
from evaluation.datasets import DatasetMessage, GoldConversation, Link
from evaluation.metrics import Report
from roomlore.domain.records import AssignedMessage

#: The answers of each question.
Answers = Mapping[str, set[str]]


async def exchanges(run: BenchmarkRun) -> Outcome:
    """Return the share of answered questions in one exchange with an answer, and how many edges are right."""
    edges = exchange_edges(await disentangled_messages(run))
    report = score_exchanges(run.messages, run.gold.links, run.gold.conversations, edges=edges)
    return Outcome(report=report, predictions=None)


def exchange_edges(messages: Sequence[AssignedMessage]) -> list[Link]:
    """Return the edges of exchanges, by external ids: stated replies and inferred answers."""
    external = {one.message.id: one.message.external_id for one in messages}
    return [
        Link(child=one.message.external_id, parent=external[one.answers.parent_id])
        for one in messages
        if one.answers is not None
        and one.answers.parent_id in external
        and (one.answers.method in {"explicit", "thread"} or one.answers.is_answer)
    ]


def score_exchanges(
    messages: Sequence[DatasetMessage],
    links: Sequence[Link],
    conversations: Sequence[GoldConversation],
    *,
    edges: Sequence[Link],
) -> Report:
    """Return how well exchanges hold questions and answers together.

    `precision` is the share of edges between judged messages that people linked, or, without links, put into one
    conversation.
    """
    said = {one.id: one for one in messages}
    answers = _answers_by_link(said, links) if links else _next_answers(said, conversations)
    groups = connected(said, [(edge.child, edge.parent) for edge in edges])
    group_of = {key: group for group in groups for key in group}
    held = sum(not found.isdisjoint(group_of[key]) for key, found in answers.items())
    return {
        "answered questions": len(answers),
        "with an answer in one exchange": _share(held, len(answers)),
        "precision": _precision(links, conversations, edges),
        "messages in exchanges of several": _share(
            sum(len(group) for group in groups if len(group) > 1), len(said)
        ),
        "largest exchange": max(map(len, groups), default=0),
    }


def _answers_by_link(said: Mapping[str, DatasetMessage], links: Iterable[Link]) -> Answers:
    found: dict[str, set[str]] = defaultdict(set)
    for link in links:
        if link.parent in said and _is_answered_by(said[link.parent], said[link.child]):
            found[link.parent].add(link.child)
    return found


def _next_answers(said: Mapping[str, DatasetMessage], conversations: Iterable[GoldConversation]) -> Answers:
    place = {key: number for number, key in enumerate(said)}
    found: dict[str, set[str]] = {}
    for one in conversations:
        ordered = sorted(one.message_ids, key=place.__getitem__)
        for key, following in pairwise(ordered):
            if _is_answered_by(said[key], said[following]):
                found[key] = {following}
    return found


def _is_answered_by(question: DatasetMessage, answer: DatasetMessage) -> bool:
    return "?" in question.text and "?" not in answer.text and question.author_id != answer.author_id


def _precision(
    links: Sequence[Link], conversations: Sequence[GoldConversation], edges: Sequence[Link]
) -> float | None:
    conversation = {key: number for number, one in enumerate(conversations) for key in one.message_ids}
    judged = [edge for edge in edges if edge.child in conversation]
    if links:
        return _share(len(set(judged) & set(links)), len(judged))
    right = [edge for edge in judged if conversation[edge.child] == conversation.get(edge.parent)]
    return _share(len(right), len(judged))


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
