"""How much an exchange between an agent and somebody is worth remembering, told without a language model.

A score from 0 to 1 that is a sum of parts, each of which has a name. Half of what can be had is for something said:
words that carry meaning on both sides. The rest is for what usually matters later: a question that was answered,
something decided, promised, corrected or learnt, words meant for the agent, somebody it had never met. Small talk and
agents among themselves are worth less. An exchange is remembered from 0.6 on: what is short needs a reason.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.context.memory_section import one_line
from roomlore.conversations.erased_names import reject_erased_names
from roomlore.db import agents, directory, erased, work_queue
from roomlore.db.agents import AgentReply
from roomlore.db.database import Database
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MemoryId, OrgId, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemorySource
from roomlore.domain.rendering import safe_name
from roomlore.memories.consolidation import upsert

#: From here on an exchange is remembered.
SALIENCE_THRESHOLD = 0.6
#: With so many words that carry meaning on both sides together there is enough said.
_SATURATION_WORDS = 16
_SUBSTANCE, _ANSWERED, _DECISIVE, _ADDRESSED, _FIRST_MEETING = 0.5, 0.2, 0.25, 0.1, 0.1
_SMALL_TALK, _AGENT = -0.3, -0.2
_READ = 4_000

_WORD = lazy_pattern(r"[^\W\d_][\w'\u2019-]*|\d[\w.,:/-]*")
_STOP_WORD_LIST = (
    "a about all also am an and any anyone are as at be been but by can could did do does doing for from get go got had"
    " has have he hello her hey hi him his how i i'd i'll i'm i've if im in into is it it's its just know like me my no"
    " not now of oh ok okay on one or our out please really she should so some than thank thanks that that's the their"
    " them then there they this to too up us was we were what when where which who why will with would yeah yes you"
    " you're your"
)
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_QUESTION = lazy_pattern(
    r"\?|^\s*(who|what|when|where|why|how|which|whose|can|could|do|does|did|is|are|should|would|will)\b",
    re.IGNORECASE,
)
_DECISIVE_CUES = lazy_pattern(
    r"\b(let'?s go with|we(?:'ve| have)? (?:decided|agreed)|decision|decided|agreed on|i(?:'ll| will)|i promise|by"
    r" (?:mon|tues|wednes|thurs|fri|satur|sun)day|by tomorrow|deadline|due|actually|correction|that'?s wrong|i meant|turns"
    r" out|lesson|learn(?:ed|t)|next time|never again|always|from now on|remember|prefer|allergic|birthday|instead of)\b",
    re.IGNORECASE,
)
_BETWEEN_SENTENCES = lazy_pattern(r"(?<=[.!?\n])\s+")
_SMALL = lazy_pattern(
    r"\W*(?:(?:hi|hello|hey|yo|thanks|thank you|thx|ty|ok|okay|k|cool|nice|great|lol|haha+|yes|yep|no|nope|sure|bye|np|good"
    r" (?:morning|night|evening|day)|how are you|no problem|you'?re welcome|welcome|there|all|everyone|bot)\W*){0,6}",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """What somebody said and what an agent answered."""

    trigger: str
    reply: str
    other_kind: ParticipantKind
    is_addressed: bool
    has_met: bool


def salience(interaction: Interaction) -> float:
    """Return how much an exchange is worth remembering, 0..1."""
    return min(max(sum(salience_parts(interaction).values()), 0.0), 1.0)


def salience_parts(interaction: Interaction) -> Mapping[str, float]:
    """Return what makes up the value of an exchange, by name; what has no part in it is left out."""
    trigger, reply = interaction.trigger[:_READ], interaction.reply[:_READ]
    answers = contains_question(trigger) and not _is_only_question(reply) and bool(_content_words(reply))
    found = {
        "substance": _SUBSTANCE
        * min(len(_content_words(trigger) | _content_words(reply)) / _SATURATION_WORDS, 1.0),
        "question answered": _ANSWERED * answers,
        "decision, promise, correction or lesson": _DECISIVE
        * bool(_DECISIVE_CUES.search(trigger) or _DECISIVE_CUES.search(reply)),
        "said to the agent": _ADDRESSED * interaction.is_addressed,
        "somebody new": _FIRST_MEETING * (not interaction.has_met),
        "small talk": _SMALL_TALK * (is_small_talk(trigger) or is_small_talk(reply)),
        "said by an agent": _AGENT * (interaction.other_kind != "human"),
    }
    return {name: part for name, part in found.items() if part}


def contains_question(text: str) -> bool:
    """Return whether a text asks something."""
    return bool(_QUESTION.search(text[:_READ]))


def is_small_talk(text: str) -> bool:
    """Return whether a text is a greeting, thanks or the like, and nothing else."""
    return bool(_SMALL.fullmatch(text[:_READ]))


def _content_words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, each once."""
    return {word.casefold() for word in _WORD.findall(text)} - _STOP_WORDS


def _is_only_question(reply: str) -> bool:
    sentences = [part for part in _BETWEEN_SENTENCES.split(reply.strip()) if part]
    return bool(sentences) and all(sentence.rstrip().endswith("?") for sentence in sentences)


#: Characters of each side that a memory quotes.
_MAX_ASKED_LENGTH, _MAX_ANSWERED_LENGTH = 160, 240
#: What an interaction weighs that is just worth keeping, and how much more the best.
_LEAST_IMPORTANCE, _IMPORTANCE_RANGE = 2.5, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionWorker:
    """Makes memories of answers that agents noted."""

    db: Database
    now: Callable[[], datetime] = utc_now
    batch: int = 50
    queue: QueueName = "interact"

    async def begin(self, only_org: OrgId | None) -> None:
        """Do nothing: what is not asked for is not remembered."""

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Remember those of these answers that are worth it, and return how many were looked at."""
        await self.db.change(org_id, partial(self._remember, org_id=org_id, tasks=tasks))
        return len(tasks)

    async def tidy(self) -> None:
        """Do nothing."""

    async def _remember(self, conn: Connection, org_id: OrgId, tasks: Sequence[Task]) -> None:
        await erased.lock_shared(conn, org_id)
        found = await agents.agent_replies(conn, org_id, [task.subject_id for task in tasks])
        await directory.lock_rooms(conn, {one.room_id for one in found})
        current = await work_queue.finish(conn, org_id, self.queue, tasks)
        for one in found:
            score = salience(_to_interaction(one))
            if one.reply_id in current and score >= SALIENCE_THRESHOLD:
                for draft in await reject_erased_names(
                    conn, org_id, [interaction_memory(one, salience_score=score, now=self.now())]
                ):
                    await upsert(conn, org_id, draft)


def interaction_memory(answered: AgentReply, *, salience_score: float, now: datetime) -> MemoryDraft:
    """Return what an agent remembers of an exchange."""
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
        asserted_by=answered.agent_id,
        asserted_in=answered.room_id,
        # The words are those of the newest edit, by a clock that may be ahead of ours.
        recorded_at=max(now, answered.edited_at or now),
        valid_from=answered.sent_at,
        sources=[MemorySource(message_id=answered.trigger_id), MemorySource(message_id=answered.reply_id)],
        roles=frozenset(
            {
                ("perspective", answered.agent_id),
                ("author", answered.agent_id),
                ("involved", answered.other_id),
            }
        ),
    )


def _to_interaction(one: AgentReply) -> Interaction:
    return Interaction(
        trigger=one.trigger,
        reply=one.reply,
        other_kind=one.other_kind,
        is_addressed=one.is_addressed,
        has_met=one.has_met,
    )
