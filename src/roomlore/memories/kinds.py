"""Every kind of memory: what it is, and how important one is unless somebody says otherwise.

Importance is on a scale of 1 to 5. Four kinds record what one agent experienced; theirs are the usual 0..1 of agent
memory times five, the middle where it is a range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from roomlore.domain.records import MemoryKind


@dataclass(frozen=True, slots=True, kw_only=True)
class KindInfo:
    """What a kind of memory is, in one line, and how important one is by default."""

    meaning: str
    #: 1..5.
    importance: float


#: What holds for everybody and is expensive to get wrong comes first; what only explains a moment comes last.
MEMORY_KINDS: Mapping[MemoryKind, KindInfo] = MappingProxyType(
    {
        "technical_decision": KindInfo(
            meaning="what was chosen to build with, and how it is built", importance=4.0
        ),
        "process_decision": KindInfo(
            meaning="what a group settled on doing: when, who, where, how", importance=4.0
        ),
        "preference": KindInfo(meaning="what somebody likes, avoids or wants done their way", importance=3.0),
        "fact": KindInfo(meaning="what is so about a person or a thing until it changes", importance=3.0),
        "lesson": KindInfo(
            meaning="what experience taught, so that it need not teach it twice", importance=4.0
        ),
        "pattern": KindInfo(meaning="what is to be done each time: a rule, a convention", importance=3.5),
        "anti_pattern": KindInfo(meaning="what is never to be done, or to be avoided", importance=3.5),
        "correction": KindInfo(meaning="what was said wrong before, and what is right", importance=3.5),
        "process_outcome": KindInfo(meaning="how something came out: shipped, won, failed", importance=3.0),
        "context": KindInfo(
            meaning="what holds for now: what is going on, who promised what", importance=2.0
        ),
        "observation": KindInfo(meaning="what an agent noticed", importance=2.5),
        "interaction": KindInfo(meaning="what an agent and somebody said to one another", importance=2.75),
        "learning": KindInfo(meaning="what an agent found out and can use again", importance=3.75),
        "insight": KindInfo(meaning="what an agent concluded from much that it saw", importance=4.5),
    }
)
#: On a `context` that is a promise: who will do what, mostly until when.
COMMITMENT_TAG = "commitment"
#: On whatever an agent stated about itself.
AGENT_TAG = "agent"
