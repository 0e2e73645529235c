"""The memory block: what an agent noticed, learnt and went through, as a few dated lines, each with its memory.

What is about the topic comes first, and of that what weighs most: importance, less the older it is, then what is
newer. A long memory is cut and says how much; what does not fit into the budget is left out and accounted for. Memories hold what people said, so each is one
line whatever it holds, and none can pass for a heading, a citation or a line of its own.
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
#: `section`: its section has lines for others; `budget`: the tokens were spent on what comes before it; `size`: it is
#: too long, whatever else there is; `edited`: a message that it rests on says something else since; `injected`: it
#: stands among the messages already.
OmissionCause = Literal["section", "budget", "size", "edited", "injected"]

#: The sections in their order, each with its heading, its kind of memory and how many lines it has at most.
MEMORY_GROUPS: Mapping[MemoryGroup, tuple[str, MemoryKind, int]] = {
    "insights": ("Insights", "insight", 3),
    "learnings": ("Learnings", "learning", 3),
    "interactions": ("With those present", "interaction", 3),
    "observations": ("Recent observations", "observation", 2),
}
_GROUP_OF: Mapping[MemoryKind, MemoryGroup] = {
    kind: section for section, (_, kind, _) in MEMORY_GROUPS.items()
}
DEFAULT_SECTION_BUDGET = 1000
#: Characters of a memory that are shown; cutting off less than this saves nothing.
LONGEST_LINE, _MIN_CUT = 200, 40
_LONGEST_FOCUS = 80
_WHY_IN: Mapping[MemoryGroup, str] = {
    "insights": "among the insights that weigh most",
    "learnings": "among the learnings that weigh most",
    "interactions": "among the interactions with those present that weigh most",
    "observations": "among the newest observations",
}
_WHY_OUT: Mapping[OmissionCause, str] = {
    "section": "others of its kind come first",
    "budget": "the budget went to memories that come before it",
    "size": "does not fit into the budget",
    "edited": "a message it rests on was edited since",
    "injected": "stands among the messages already",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedMemory:
    """A memory that may be shown, how much it weighs, and whether it is about the topic."""

    memory: Memory
    weight: float
    #: True where there is no topic.
    is_on_topic: bool = True

    @property
    def group(self) -> MemoryGroup:
        """Where it stands."""
        return _GROUP_OF[self.memory.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
    """One memory as the block shows it."""

    memory_id: MemoryId
    #: What a citation calls it, unique in the block: "k1", "k2", …
    label: str
    section: MemoryGroup
    #: Since when it is true.
    at: datetime
    #: Harmless, on one line, and cut only where a marker says so.
    text: str
    weight: float
    #: Whether it is about the topic; otherwise it is weighty whatever is talked about.
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedMemory:
    """A memory that was considered and is not in the block."""

    memory_id: MemoryId
    section: MemoryGroup
    weight: float
    cause: OmissionCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What an agent is at: a task, or else what is talked about."""

    text: str
    #: The newest memory of the task, and what a citation calls it; None where it is what is talked about.
    memory_id: MemoryId | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMemory:
    """One memory, in or out, with the reason."""

    memory_id: MemoryId
    included: bool
    #: Its citation label; None when it is out.
    label: str | None
    section: MemoryGroup
    weight: float
    #: One phrase for a person.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySection:
    """What an agent remembers that may matter now."""

    agent_id: ParticipantId
    #: Of the agent, harmless.
    name: str
    #: In the order of the sections.
    lines: tuple[MemoryLine, ...]
    focus: Focus | None
    left_out: tuple[OmittedMemory, ...]
    #: Never more than the budget; none where nothing is shown.
    tokens: int
    budget: int
    #: Where what it holds may be posted without telling anybody there what they may not read.
    postable: Postable = "nowhere"

    @property
    def citations(self) -> Mapping[str, MemoryId]:
        """The memory behind each label."""
        cited = {line.label: line.memory_id for line in self.lines}
        if self.focus is not None and self.focus.label is not None and self.focus.memory_id is not None:
            cited[self.focus.label] = self.focus.memory_id
        return cited

    def explain(self) -> tuple[ExplainedMemory, ...]:
        """Return every memory that was considered, in or out, with its reason; those that are in come first."""
        shown = [
            ExplainedMemory(
                memory_id=line.memory_id,
                included=True,
                label=line.label,
                section=line.section,
                weight=line.weight,
                reason=_WHY_IN[line.section] if line.fits else "weighty, whatever is talked about",
            )
            for line in self.lines
        ]
        passed = [
            ExplainedMemory(
                memory_id=one.memory_id,
                included=False,
                label=None,
                section=one.section,
                weight=one.weight,
                reason=_WHY_OUT[one.cause],
            )
            for one in self.left_out
        ]
        return (*shown, *passed)


def compose(
    memories: Sequence[RankedMemory],
    *,
    agent_id: ParticipantId,
    name: str,
    focus: Focus | None = None,
    budget: int = DEFAULT_SECTION_BUDGET,
    counter: TokenCounter = estimate_tokens,
) -> MemorySection:
    """Return a block of the memories that matter most, within the budget of tokens.

    Args:
        memories: Each once; in the order in which they count within their sections.
        agent_id: Whose memories they are.
        name: What the agent is called.
        focus: What the agent is at.
        budget: Tokens, that of the focus among them.
        counter: Tells what a text costs.
    """
    empty = MemorySection(
        agent_id=agent_id,
        name=safe_name(name),
        lines=(),
        focus=None if focus is None else replace(focus, text=one_line(focus.text, _LONGEST_FOCUS)),
        left_out=(),
        tokens=0,
        budget=budget,
    )
    chosen, passed = _select_lines(memories)
    kept: list[RankedMemory] = []
    for one in sorted(
        chosen, key=lambda one: (one.is_on_topic, one.weight, one.memory.valid_from), reverse=True
    ):
        if _cost(_with_lines(empty, [*kept, one]), counter) <= budget:
            kept.append(one)
        else:
            passed.append(_to_omitted(one, "budget" if kept else "size"))
    block = replace(_with_lines(empty, kept), left_out=tuple(passed))
    is_bare = not kept and focus is not None and focus.memory_id is None
    # What is talked about is no memory: alone it says nothing that the messages do not.
    if is_bare or _cost(block, counter) > budget:
        block = replace(block, focus=None)
    return replace(block, tokens=_cost(block, counter))


def without_injected(
    section: MemorySection, injected: Collection[MemoryId], *, counter: TokenCounter = estimate_tokens
) -> MemorySection:
    """Return the block without memories that stand among the messages already; what is at hand stays in focus."""
    lines = [line for line in section.lines if line.memory_id not in injected]
    passed = [
        OmittedMemory(memory_id=line.memory_id, section=line.section, weight=line.weight, cause="injected")
        for line in section.lines
        if line.memory_id in injected
    ]
    section = _with_labels(replace(section, left_out=(*passed, *section.left_out)), lines)
    return replace(section, tokens=_cost(section, counter))


def section_text(block: MemorySection) -> str:
    """Return the block as text; nothing where it has neither a line nor a focus."""
    parts: list[str] = []
    for section, (heading, _, _) in MEMORY_GROUPS.items():
        lines = [line for line in block.lines if line.section == section]
        parts += [f"{heading}:"] if lines else []
        parts += [f"- #{line.label} {line.at:%Y-%m-%d}: {line.text}" for line in lines]
    if block.focus is not None:
        cited = f"#{block.focus.label} " if block.focus.label else ""
        parts.append(f"Current focus: {cited}{block.focus.text}")
    return "\n".join([f"[What {block.name} remembers]", *parts]) if parts else ""


def _select_lines(found: Sequence[RankedMemory]) -> tuple[list[RankedMemory], list[OmittedMemory]]:
    """Return the first memories of each section, as many as it has lines, and what is passed over."""
    chosen: list[RankedMemory] = []
    passed: list[OmittedMemory] = []
    for section, (_, _, most) in MEMORY_GROUPS.items():
        inside = [one for one in found if one.group == section]
        current = [one for one in inside if not one.memory.is_outdated]
        chosen += current[:most]
        passed += [_to_omitted(one, "section") for one in current[most:]]
        passed += [_to_omitted(one, "edited") for one in inside if one.memory.is_outdated]
    return chosen, passed


def _to_omitted(one: RankedMemory, cause: OmissionCause) -> OmittedMemory:
    return OmittedMemory(memory_id=one.memory.id, section=one.group, weight=one.weight, cause=cause)


def _with_lines(block: MemorySection, kept: Sequence[RankedMemory]) -> MemorySection:
    """Return the block with these memories, each in its section."""
    lines = [
        MemoryLine(
            memory_id=one.memory.id,
            label="",
            section=one.group,
            at=one.memory.valid_from,
            text=one_line(one.memory.content, LONGEST_LINE),
            weight=one.weight,
            fits=one.is_on_topic,
        )
        for section in MEMORY_GROUPS
        for one in kept
        if one.group == section
    ]
    return _with_labels(block, lines)


def _with_labels(section: MemorySection, lines: Sequence[MemoryLine]) -> MemorySection:
    """Return the block with these lines, labelled in the order in which they stand."""
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
    """Return words on one line, made harmless, without what is too long of them; a marker says how much that is."""
    text = as_one_line(content)
    if len(text) <= longest + _MIN_CUT:
        return text
    start = text[:longest].rsplit(" ", 1)[0] if " " in text[:longest] else text[:longest]
    return f"{start} [… {len(text) - len(start)} characters cut]"
