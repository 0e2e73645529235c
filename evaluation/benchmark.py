"""The input and the result of a benchmark task: options, data set, report."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.datasets import DatasetMessage, Gold
from evaluation.metrics import Report
from roomlore.domain.ports import Embedder
from roomlore.operations import App
from roomlore.settings import EmbeddingSettings

#: One line of a predictions file, ready for JSON.
Line = Mapping[str, Any]
#: Told how many more items are done.
Progress = Callable[[int], None]
#: Shows the progress of a named step while its context lasts, out of a total where that is known.
ProgressBar = Callable[[str, int | None], AbstractContextManager[Progress]]


def no_progress(_: str, __: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the task `retrieval`: additional measurements."""

    #: The baselines answer the same questions.
    baselines: bool = True
    #: Questions are also answered, not only searched for.
    answers: bool = False
    #: Search also runs with one stage left out at a time.
    ablations: bool = False
    #: Search also runs after a switch to the embedding model of this name.
    switch: str | None = None
    #: The configured embedding models beside the default one.
    embeddings: Mapping[str, EmbeddingSettings | Path] = field(
        default_factory=dict[str, EmbeddingSettings | Path]
    )


DEFAULT_OPTIONS = Options()


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """One task on one data set."""

    #: Holds the messages of the data set and nothing else.
    app: App
    messages: Sequence[DatasetMessage]
    gold: Gold
    options: Options = DEFAULT_OPTIONS
    progress: ProgressBar = no_progress
    #: The same database without an embedding model; None leaves out lexical search.
    lexical_app: App | None = None
    #: The embedding model of `app`; None leaves out the baselines and ablations that need one.
    embedder: Embedder | None = None

    @property
    def rooms(self) -> list[str]:
        """The rooms that have messages."""
        return list(dict.fromkeys(message.room for message in self.messages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a task measured."""

    report: Report
    #: What the system found, in the form that a scorer reads; None for tasks that no scorer judges.
    predictions: Sequence[Line] | None
