"""The memory section of a context: the observations, learnings and experiences of an agent, as dated, cited lines.

Memories about the topic come first, then other memories. Within both groups, heavier memories come first, then newer
ones; the weight is the importance, reduced by age. A long memory is cut, with a note of how much was cut. Memories that
do not fit into the budget are listed as omitted. A memory may repeat what people said. So it is always one line, which
cannot look like a heading, a citation or another line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from roomlore.context.tokens import TokenCounter, estimate_tokens, message_cost
from roomlore.domain.ids import MemoryId, ParticipantId
from roomlore.domain.records import Memory, MemoryKind, Postable
from roomlore.domain.rendering import as_one_line, safe_name

MemoryGroup = Literal["insights", "learnings", "interactions", "observations"]
#: `section`: more important memories take all lines of its group. `budget`: more important memories used the tokens.
#: `size`: the memory alone is too long. `edited`: one of its sources was edited. `injected`: the memory is already
#: among the messages.
OmissionCause = Literal["section", "budget", "size", "edited", "injected"]

#: The groups in their order, each with its heading, its kind of memory and its maximum number of lines.
MEMORY_GROUPS: Mapping[MemoryGroup, tuple[str, MemoryKind, int]] = {
    "insights": ("Insights", "insight", 3),
    "learnings": ("Learnings", "learning", 3),
    "interactions": ("With those present", "interaction", 3),
    "observations": ("Recent observations", "observation", 2),
}
_GROUP_OF: Mapping[MemoryKind, MemoryGroup] = {kind: group for group, (_, kind, _) in MEMORY_GROUPS.items()}
DEFAULT_SECTION_BUDGET = 1000
#: The characters that are shown of a memory. `_MIN_CUT`: cutting fewer characters than this saves nothing.
LONGEST_LINE, _MIN_CUT = 200, 40
_LONGEST_FOCUS = 80
_WHY_IN: Mapping[MemoryGroup, str] = {
    "insights": "among the weightiest insights",
    "learnings": "among the weightiest learnings",
    "interactions": "among the weightiest interactions with those present",
    "observations": "among the newest observations",
}
_WHY_OUT: Mapping[OmissionCause, str] = {
    "section": "others of its kind come first",
    "budget": "the budget went to memories that come before it",
    "size": "does not fit into the budget",
    "edited": "a message it rests on was edited since",
    "injected": "is among the messages already",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A candidate memory with its weight."""

    memory: Memory
    weight: float
    #: Whether the memory is about the topic; True if there is no topic.
    is_on_topic: bool = True

    @property
    def group(self) -> MemoryGroup:
        """The group to which the memory belongs."""
        return _GROUP_OF[self.memory.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """A memory as the section shows it."""

    memory_id: MemoryId
    #: Its citation, unique in the section: "k1", "k2", …
    label: str
    section: MemoryGroup
    #: `valid_from` of the memory.
    at: datetime
    #: The content, sanitised and on one line, with a marker where it is cut.
    text: str
    weight: float
    #: Whether the memory is about the topic.
    is_on_topic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedMemory:
    """A memory that was considered and is not in the section."""

    memory_id: MemoryId
    section: MemoryGroup
    weight: float
    reason: OmissionCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The current focus of an agent: the task of its newest memory with a task, or else the topic."""

    text: str
    #: The newest memory of the task, which the focus cites; None if the focus is a topic.
    memory_id: MemoryId | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMemory:
    """A memory that was considered for the section, whether the section shows it, and why."""

    memory_id: MemoryId
    included: bool
    #: The label of the memory; None if it is not in the section.
    label: str | None
    section: MemoryGroup
    weight: float
    #: The reason, as one phrase for people.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySection:
    """The memories of an agent that may matter now."""

    agent_id: ParticipantId
    #: The agent's name, sanitised.
    name: str
    #: The lines, in the order of the groups.
    lines: tuple[MemoryLine, ...]
    focus: Focus | None
    omitted: tuple[OmittedMemory, ...]
    #: The tokens of the section, at most the budget; 0 if it is empty.
    tokens: int
    budget: int
    #: Where the section's contents may be posted without revealing anything to people who may not read them.
    postable: Postable = "nowhere"

    @property
    def citations(self) -> Mapping[str, MemoryId]:
        """The memory that each label cites."""
        cited = {line.label: line.memory_id for line in self.lines}
        if self.focus is not None and self.focus.label is not None and self.focus.memory_id is not None:
            cited[self.focus.label] = self.focus.memory_id
        return cited

    def explain(self) -> tuple[ExplainedMemory, ...]:
        """Return every memory that was considered, with the reason. The memories in the section come first."""
        shown = [
            ExplainedMemory(
                memory_id=line.memory_id,
                included=True,
                label=line.label,
                section=line.section,
                weight=line.weight,
                reason=_WHY_IN[line.section] if line.is_on_topic else "weighty, on any topic",
            )
            for line in self.lines
        ]
        omitted = [
            ExplainedMemory(
                memory_id=one.memory_id,
                included=False,
                label=None,
                section=one.section,
                weight=one.weight,
                reason=_WHY_OUT[one.reason],
            )
            for one in self.omitted
        ]
        return (*shown, *omitted)


def compose(
    memories: Sequence[RankedMemory],
    *,
    agent_id: ParticipantId,
    name: str,
    focus: Focus | None = None,
    budget: int = DEFAULT_SECTION_BUDGET,
    counter: TokenCounter = estimate_tokens,
) -> MemorySection:
    """Return a section of the most important memories within the token budget.

    `memories` must be in the order of the groups.
    """
    empty = MemorySection(
        agent_id=agent_id,
        name=safe_name(name),
        lines=(),
        focus=None if focus is None else replace(focus, text=one_line(focus.text, _LONGEST_FOCUS)),
        omitted=(),
        tokens=0,
        budget=budget,
    )
    chosen, omitted = _select_lines(memories)
    kept: list[RankedMemory] = []
    for one in sorted(
        chosen, key=lambda one: (one.is_on_topic, one.weight, one.memory.valid_from), reverse=True
    ):
        if _cost(_with_lines(empty, [*kept, one]), counter) <= budget:
            kept.append(one)
        else:
            omitted.append(_to_omitted(one, "budget" if kept else "size"))
    section = replace(_with_lines(empty, kept), omitted=tuple(omitted))
    is_bare = not kept and focus is not None and focus.memory_id is None
    # A focus on a topic alone adds nothing to the messages. So the section is then empty.
    if is_bare or _cost(section, counter) > budget:
        section = replace(section, focus=None)
    return replace(section, tokens=_cost(section, counter))


def without_injected(
    section: MemorySection, injected: Collection[MemoryId], *, counter: TokenCounter = estimate_tokens
) -> MemorySection:
    """Return the section without the memories that are already among the messages. The focus stays."""
    lines = [line for line in section.lines if line.memory_id not in injected]
    omitted = [
        OmittedMemory(memory_id=line.memory_id, section=line.section, weight=line.weight, reason="injected")
        for line in section.lines
        if line.memory_id in injected
    ]
    section = _with_labels(replace(section, omitted=(*omitted, *section.omitted)), lines)
    return replace(section, tokens=_cost(section, counter))


def section_text(section: MemorySection) -> str:
    """Return the section as text; empty if it has neither a line nor a focus."""
    parts: list[str] = []
    for group, (heading, _, _) in MEMORY_GROUPS.items():
        lines = [line for line in section.lines if line.section == group]
        parts += [f"{heading}:"] if lines else []
        parts += [f"- #{line.label} {line.at:%Y-%m-%d}: {line.text}" for line in lines]
    if section.focus is not None:
        cited = f"#{section.focus.label} " if section.focus.label else ""
        parts.append(f"Current focus: {cited}{section.focus.text}")
    return "\n".join([f"[What {section.name} remembers]", *parts]) if parts else ""


def _select_lines(memories: Sequence[RankedMemory]) -> tuple[list[RankedMemory], list[OmittedMemory]]:
    """Return the first memories of each group, and the omitted memories.

    A group gets as many memories as it has lines.
    """
    chosen: list[RankedMemory] = []
    omitted: list[OmittedMemory] = []
    for group, (_, _, max_lines) in MEMORY_GROUPS.items():
        members = [one for one in memories if one.group == group]
        current = [one for one in members if not one.memory.is_outdated]
        chosen += current[:max_lines]
        omitted += [_to_omitted(one, "section") for one in current[max_lines:]]
        omitted += [_to_omitted(one, "edited") for one in members if one.memory.is_outdated]
    return chosen, omitted


def _to_omitted(one: RankedMemory, reason: OmissionCause) -> OmittedMemory:
    return OmittedMemory(memory_id=one.memory.id, section=one.group, weight=one.weight, reason=reason)


def _with_lines(section: MemorySection, kept: Sequence[RankedMemory]) -> MemorySection:
    """Return the section with lines for these memories, each in its group."""
    lines = [
        MemoryLine(
            memory_id=one.memory.id,
            label="",
            section=one.group,
            at=one.memory.valid_from,
            text=one_line(one.memory.content, LONGEST_LINE),
            weight=one.weight,
            is_on_topic=one.is_on_topic,
        )
        for group in MEMORY_GROUPS
        for one in kept
        if one.group == group
    ]
    return _with_labels(section, lines)


def _with_labels(section: MemorySection, lines: Sequence[MemoryLine]) -> MemorySection:
    """Return the section with these lines, which get new labels in their order."""
    lines = [replace(line, label=f"k{place}") for place, line in enumerate(lines, start=1)]
    labels = {line.memory_id: line.label for line in lines}
    focus = section.focus
    if focus is not None and focus.memory_id is not None:
        focus = replace(focus, label=labels.get(focus.memory_id, f"k{len(lines) + 1}"))
    return replace(section, lines=tuple(lines), focus=focus)


def _cost(section: MemorySection, counter: TokenCounter) -> int:
    text = section_text(section)
    return message_cost(text, counter) if text else 0


def one_line(content: str, longest: int) -> str:
    """Return a text on one line, sanitised, and cut with a marker if it is too long."""
    text = as_one_line(content)
    if len(text) <= longest + _MIN_CUT:
        return text
    start = text[:longest].rsplit(" ", 1)[0] if " " in text[:longest] else text[:longest]
    return f"{start} [… {len(text) - len(start)} characters cut]"
