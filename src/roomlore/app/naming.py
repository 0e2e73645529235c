"""Puts a language model to work on conversations, where the settings name one."""

from collections.abc import Sequence
from functools import partial

from roomlore.backends.languagemodel import open_language_model
from roomlore.config import LanguageModelSettings
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import asking, loop, name, read
from roomlore.workers.asking import LanguageModelCaller
from roomlore.workers.name import TitleWorker
from roomlore.workers.read import LanguageModelExtractionWorker

#: Of what is stated in a portion of a conversation; a statement needs some hundred.
MAX_CLAIM_TOKENS = 1_500
#: Before it is taken for lost: so many tokens take a small machine a while.
CLAIM_TIMEOUT_SECONDS = 120.0


def language_model_tasks(db: Database, settings: LanguageModelSettings | None) -> Sequence[loop.PeriodicTask]:
    """Return what a running worker does to name and to read conversations: nothing without a language model.

    Raises:
        BadInput: one is named, and what asks it is not installed.
    """
    if settings is None:
        return ()
    return partial(asking.run, _title_worker(db, settings)), partial(asking.run, claim_worker(db, settings))


async def drain_language_model(
    db: Database, settings: LanguageModelSettings | None, only_org: OrgId | None
) -> int:
    """Name and read the conversations that wait, in one org or in all, and return how many were read.

    Raises:
        BadInput: a language model is named, and what asks it is not installed.
    """
    if settings is None:
        return 0
    await asking.drain(_title_worker(db, settings), only_org=only_org)
    return (await asking.drain(claim_worker(db, settings), only_org=only_org))["read"]


def claim_worker(db: Database, settings: LanguageModelSettings) -> LanguageModelExtractionWorker:
    """Return what asks a language model what is stated in conversations.

    Raises:
        BadInput: what asks it is not installed.
    """
    language_model = open_language_model(
        settings.url, settings.name, key=settings.key, seconds=CLAIM_TIMEOUT_SECONDS, tokens=MAX_CLAIM_TOKENS
    )
    return LanguageModelExtractionWorker(
        caller=LanguageModelCaller(db=db, language_model=language_model, purpose=read.PURPOSE),
        calls=settings.memory_calls,
        calls_of_room=settings.room_calls,
    )


def _title_worker(db: Database, settings: LanguageModelSettings) -> TitleWorker:
    language_model = open_language_model(settings.url, settings.name, key=settings.key)
    caller = LanguageModelCaller(db=db, language_model=language_model, purpose=name.PURPOSE)
    return TitleWorker(caller=caller, calls=settings.calls)
