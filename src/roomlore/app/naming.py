"""Puts a language model to work on conversations, where the settings name one."""

from collections.abc import Sequence
from functools import partial

from roomlore.backends.languagemodel import open_language_model
from roomlore.config import LanguageModelSettings
from roomlore.domain.ids import OrgId
from roomlore.store.db import Database
from roomlore.workers import asking, loop, name, read
from roomlore.workers.asking import Caller
from roomlore.workers.name import NameWorker
from roomlore.workers.read import ReadWorker

#: Of what is stated in a portion of a conversation; a statement needs some hundred.
STATEMENT_TOKENS = 1_500
#: Before it is taken for lost: so many tokens take a small machine a while.
STATEMENT_SECONDS = 120.0


def language_model_chores(db: Database, settings: LanguageModelSettings | None) -> Sequence[loop.Chore]:
    """Return what a running worker does to name and to read conversations: nothing without a language model.

    Raises:
        BadInput: one is named, and what asks it is not installed.
    """
    if settings is None:
        return ()
    return partial(asking.run, _namer(db, settings)), partial(asking.run, reader(db, settings))


async def ask_about_waiting(
    db: Database, settings: LanguageModelSettings | None, only_org: OrgId | None
) -> int:
    """Name and read the conversations that wait, in one org or in all, and return how many were read.

    Raises:
        BadInput: a language model is named, and what asks it is not installed.
    """
    if settings is None:
        return 0
    await asking.drain(_namer(db, settings), only_org=only_org)
    return (await asking.drain(reader(db, settings), only_org=only_org))["read"]


def reader(db: Database, settings: LanguageModelSettings) -> ReadWorker:
    """Return what asks a language model what is stated in conversations.

    Raises:
        BadInput: what asks it is not installed.
    """
    language_model = open_language_model(
        settings.url, settings.name, key=settings.key, seconds=STATEMENT_SECONDS, tokens=STATEMENT_TOKENS
    )
    return ReadWorker(
        caller=Caller(db=db, language_model=language_model, purpose=read.PURPOSE),
        calls=settings.memory_calls,
        calls_of_room=settings.room_calls,
    )


def _namer(db: Database, settings: LanguageModelSettings) -> NameWorker:
    language_model = open_language_model(settings.url, settings.name, key=settings.key)
    caller = Caller(db=db, language_model=language_model, purpose=name.PURPOSE)
    return NameWorker(caller=caller, calls=settings.calls)
