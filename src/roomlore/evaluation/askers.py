"""For whom the questions of a data set are asked: whoever asks, as far as the room knows them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from roomlore.app import App
from roomlore.domain.records import Viewer
from roomlore.evaluation.datasets import DatasetMessage, Question
from roomlore.evaluation.feeding import PLATFORM

ASKER, NOBODY, STRANGER = (
    "whoever asks",
    "the operator, since nobody is said to ask",
    "the operator, since whoever asks never spoke in the room",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Askers:
    """For whom each question is asked."""

    operator: Viewer
    #: By question; only those of askers who spoke in the room.
    viewers: Mapping[str, Viewer]
    #: How many questions are asked for whom.
    counts: Mapping[str, int]

    def viewer(self, question: Question) -> Viewer:
        """Return for whom a question is asked."""
        return self.viewers.get(question.id, self.operator)


async def askers_of(app: App, questions: Sequence[Question], messages: Iterable[DatasetMessage]) -> Askers:
    """Return for whom each question is asked: its asker, or the operator where the room does not know them."""
    spoke = {(message.room, message.author_id) for message in messages}
    wanted = {q.id: q.asker_id for q in questions if q.asker_id and (q.room, q.asker_id) in spoke}
    by_account = await _viewers(app, set(wanted.values())) if wanted else {}
    viewers = {key: by_account[asker] for key, asker in wanted.items() if asker in by_account}
    counts = Counter(
        ASKER if question.id in viewers else STRANGER if question.asker_id else NOBODY
        for question in questions
    )
    return Askers(operator=app.operator, viewers=viewers, counts=counts)


async def _viewers(app: App, account_ids: set[str]) -> dict[str, Viewer]:
    accounts = await app.people.accounts(app.operator)
    return {
        account.account_id: await app.viewer(str(account.participant_id))
        for account in accounts
        if account.platform == PLATFORM and account.account_id in account_ids
    }
