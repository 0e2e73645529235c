"""What the tasks of a measurement work with, and what they hand back."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from roomlore.app import App
from roomlore.config import EmbeddingSettings
from roomlore.domain.ports import Embedder
from roomlore.evaluation.datasets import DatasetMessage, Gold
from roomlore.evaluation.metrics import Report
from roomlore.evaluation.placing import Bar, Progress
from roomlore.evaluation.runs import Line


def silent(_: str, __: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """What else is measured, of the task retrieval."""

    #: Plain methods search, too.
    plain: bool = True
    #: Questions are also answered, and not only searched for.
    answers: bool = False
    #: Search is also measured with each of its stages left out.
    stages: bool = False
    #: Search is also measured after a switch to the embedding model of this name.
    switch: str | None = None
    #: The embedding models that there are beside the default one.
    embeddings: Mapping[str, EmbeddingSettings | Path] = field(
        default_factory=dict[str, EmbeddingSettings | Path]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a task works with."""

    #: Holds the messages, and nothing else.
    app: App
    messages: Sequence[DatasetMessage]
    gold: Gold
    bar: Bar = silent
    #: The same rooms without an embedding model; None leaves out what search finds by words alone.
    worded: App | None = None
    #: The embedding model of `app`; None leaves out the reference methods that need one.
    embedder: Embedder | None = None
    #: Whether plain methods search, too.
    plain: bool = True
    #: Whether questions are also answered, and not only searched for.
    answers: bool = False
    #: Whether search is also measured with each of its stages left out.
    stages: bool = False
    #: To which embedding model the rooms are switched at the end, to search once more; None: to none.
    switch: str | None = None

    @property
    def rooms(self) -> list[str]:
        """The rooms in which something was said."""
        return list(dict.fromkeys(message.room for message in self.messages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a task measured."""

    report: Report
    #: What the system found, as a scorer reads it; None where no scorer does.
    run: Sequence[Line] | None
