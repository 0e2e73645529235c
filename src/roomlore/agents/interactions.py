"""Scores exchanges between an agent and somebody by rules, and stores the salient ones as memories.

The score, 0..1, is a sum of named parts. Content words of both messages add up to half of the score. An answered
question, a decision, promise, correction or lesson, words addressed to the agent, and a first meeting add to it, too.
Small talk and messages of agents lower it. A short exchange reaches the threshold only if one of the parts other than
content words adds to it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.context.memory_section import one_line
from roomlore.conversations.erased_names import reject_erased_names
from roomlore.db import agents, directory, erasure_guard, work_queue
from roomlore.db.agents import AgentReply
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MemoryId, OrgId, uuid7
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemorySource
from roomlore.domain.rendering import safe_name
from roomlore.jobs.runner import QueueWorker
from roomlore.memories.consolidation import upsert
from roomlore.text.recognisers import CHAT_STOP_WORDS, contains_question, is_small_talk
from roomlore.text.sentences import sentences_of

#: The lowest score at which an exchange is stored.
SALIENCE_THRESHOLD = 0.6
#: The number of content words in both messages at which their part of the score is full.
_SATURATION_WORDS = 16
_SUBSTANCE, _ANSWERED, _DECISIVE, _ADDRESSED, _FIRST_MEETING = 0.5, 0.2, 0.25, 0.1, 0.1
_SMALL_TALK, _AGENT = -0.3, -0.2
_READ = 4_000

_WORD = lazy_pattern(r"[^\W\d_][\w'\u2019-]*|\d[\w.,:/-]*")
_DECISIVE_CUES = lazy_pattern(
    r"\b(let'?s go with|we(?:'ve| have)? (?:decided|agreed)|decision|decided|agreed on|i(?:'ll| will)|i promise|by"
    r" (?:mon|tues|wednes|thurs|fri|satur|sun)day|by tomorrow|deadline|due|actually|correction|that'?s wrong|i meant|turns"
    r" out|lesson|learn(?:ed|t)|next time|never again|always|from now on|remember|prefer|allergic|birthday|instead of)\b",
    re.IGNORECASE,
)


def salience(exchange: AgentReply) -> float:
    """Return the score of an exchange, 0..1."""
    return min(max(sum(salience_parts(exchange).values()), 0.0), 1.0)


def salience_parts(exchange: AgentReply) -> Mapping[str, float]:
    """Return the parts of the score that are not 0, by name."""
    trigger, reply = exchange.trigger[:_READ], exchange.reply[:_READ]
    answers = contains_question(trigger) and not _is_only_question(reply) and bool(_content_words(reply))
    words = _content_words(trigger) | _content_words(reply)
    found = {
        "substance": _SUBSTANCE * min(len(words) / _SATURATION_WORDS, 1.0),
        "question answered": _ANSWERED * answers,
        "decision, promise, correction or lesson": _DECISIVE
        * bool(_DECISIVE_CUES.search(trigger) or _DECISIVE_CUES.search(reply)),
        "said to the agent": _ADDRESSED * exchange.is_addressed,
        "somebody new": _FIRST_MEETING * (not exchange.has_met),
        "small talk": _SMALL_TALK * (is_small_talk(trigger) or is_small_talk(reply)),
        "said by an agent": _AGENT * (exchange.other_kind != "human"),
    }
    return {name: part for name, part in found.items() if part}


def _content_words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)} - CHAT_STOP_WORDS


def _is_only_question(reply: str) -> bool:
    sentences = sentences_of(reply)
    return bool(sentences) and all(sentence.endswith("?") for sentence in sentences)


#: The maximum number of characters quoted of the question, and of the answer.
_MAX_ASKED_LENGTH, _MAX_ANSWERED_LENGTH = 160, 240
#: The importance of an exchange with the lowest stored score, and how much more an exchange with the highest score has.
_LEAST_IMPORTANCE, _IMPORTANCE_RANGE = 2.5, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionWorker(QueueWorker):
    """Scores the answers that agents recorded, and stores the salient ones as memories."""

    queue: QueueName = "interactions"
    batch: int = 50
    now: Callable[[], datetime] = utc_now

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Store the salient answers; return how many answers were scored."""
        await self.db.change(org_id, partial(self._remember, org_id=org_id, tasks=tasks))
        return len(tasks)

    async def _remember(self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]) -> None:
        await erasure_guard.lock_shared(conn, org_id)
        found = await agents.agent_replies(conn, org_id, [task.subject_id for task in tasks])
        await directory.lock_rooms(conn, {one.room_id for one in found})
        current = await work_queue.finish(conn, org_id, self.queue, tasks)
        for one in found:
            score = salience(one)
            if one.reply_id in current and score >= SALIENCE_THRESHOLD:
                for draft in await reject_erased_names(
                    conn, org_id, [interaction_memory(one, salience_score=score, now=self.now())]
                ):
                    await upsert(conn, org_id, draft)


def interaction_memory(answered: AgentReply, *, salience_score: float, now: datetime) -> MemoryDraft:
    """Return the memory of an exchange."""
    agent_id = answered.agent_id
    agent, other = safe_name(answered.agent_name), safe_name(answered.other_name)
    return MemoryDraft(
        id=MemoryId(uuid7()),
        kind="interaction",
        title=f"Talk with {other}",
        content=f"{other}: “{one_line(answered.trigger, _MAX_ASKED_LENGTH)}” {agent}: “{one_line(answered.reply, _MAX_ANSWERED_LENGTH)}”",
        importance=round(
            _LEAST_IMPORTANCE
            + _IMPORTANCE_RANGE * (salience_score - SALIENCE_THRESHOLD) / (1 - SALIENCE_THRESHOLD),
            1,
        ),
        sensitivity=answered.sensitivity,
        asserted_by=agent_id,
        asserted_in=answered.room_id,
        # The platform's clock may be ahead of ours.
        recorded_at=max(now, answered.edited_at or now),
        valid_from=answered.sent_at,
        sources=[MemorySource(message_id=answered.trigger_id), MemorySource(message_id=answered.reply_id)],
        roles=frozenset({("perspective", agent_id), ("author", agent_id), ("involved", answered.other_id)}),
    )
