"""What the tasks of a measurement work with, and what they hand back."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from roomlore.app import App
from roomlore.domain.ports import Embedder
from roomlore.evaluation.datasets import DatasetMessage, Gold
from roomlore.evaluation.metrics import Report
from roomlore.evaluation.placing import Bar, Progress
from roomlore.evaluation.runs import Line


def silent(_: str, __: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(lambda _: None)


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
    #: Whether questions are also answered, and not only searched for.
    answers: bool = False
    #: Whether search is also measured with each of its stages left out.
    stages: bool = False

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
