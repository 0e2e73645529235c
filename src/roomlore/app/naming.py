"""Puts a language model to work on conversations, where the settings name one."""

from collections.abc import Sequence
from functools import partial

from roomlore.backends.languagemodel import open_language_model
from roomlore.config import LanguageModelSettings
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import loop, name
from roomlore.workers.name import NameWorker


def naming_chores(db: Database, settings: LanguageModelSettings | None) -> Sequence[loop.Chore]:
    """Return what a running worker does to name conversations: nothing without a language model.

    Raises:
        BadInput: one is named, and what asks it is not installed.
    """
    return () if settings is None else (partial(name.run, _worker(db, settings)),)


async def name_waiting(db: Database, settings: LanguageModelSettings | None, only_org: OrgId | None) -> int:
    """Name the conversations that wait, in one org or in all, and return how many got a title.

    Raises:
        BadInput: a language model is named, and what asks it is not installed.
    """
    return 0 if settings is None else await name.drain(_worker(db, settings), only_org=only_org)


def _worker(db: Database, settings: LanguageModelSettings) -> NameWorker:
    language_model = open_language_model(settings.url, settings.name, key=settings.key)
    return NameWorker(db=db, language_model=language_model, calls=settings.calls)
