"""The kinds of memories.

Importance is on a scale of 1 to 5. For the four kinds of agents' experiences, it comes from the literature on agent
memory, which uses 0..1; those values are multiplied by five. Where the literature gives a range, the middle of the
range is used.
"""

from collections.abc import Mapping
from types import MappingProxyType

from roomlore.domain.records import MemoryKind

#: The default importance of each kind.
DEFAULT_IMPORTANCE: Mapping[MemoryKind, float] = MappingProxyType(
    {
        "decision": 4.0,  # what a group or one of its people settled on
        "announcement": 3.0,  # what somebody tells everybody
        "answer": 3.0,  # a question and what answered it
        "promise": 3.0,  # what somebody will do
        "resource": 3.0,  # a link or a file, and what was said of it
        "technical_decision": 4.0,  # what was chosen to build with, and how it is built
        "process_decision": 4.0,  # what a group decided to do: when, who, where, how
        "preference": 3.0,  # what somebody likes, avoids or wants done their way
        "fact": 3.0,  # what is true of a person or a thing until it changes
        "lesson": 4.0,  # what was learned from experience
        "pattern": 3.5,  # what to do each time: a rule, a convention
        "anti_pattern": 3.5,  # what to avoid or never do
        "correction": 3.5,  # what was wrong before, and what is right
        "process_outcome": 3.0,  # how something ended: shipped, won, failed
        "context": 2.0,  # what is true for now: current work, promises
        "observation": 2.5,  # what an agent noticed
        "interaction": 2.75,  # what an agent and somebody said to each other
        "learning": 3.75,  # what an agent learned and can use again
        "insight": 4.5,  # what an agent concluded from many observations
    }
)
#: Tags a memory that an agent stated.
AGENT_TAG = "agent"
#: Tags a memory that a later message of the same conversation corrects.
CONTESTED_TAG = "contested"
