"""How much the workers do at once, and how often they look for work, are settings."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ingest.stories import message
from roomlore.domain.errors import BadInput
from roomlore.jobs import runner
from roomlore.operations import App
from roomlore.settings import Settings, WorkerSettings, from_environment


def test_the_environment_sets_batches_and_the_pause() -> None:
    settings = from_environment(
        {
            "ROOMLORE_EMBEDDING_BATCH": "16",
            "ROOMLORE_EXTRACTION_BATCH": "5",
            "ROOMLORE_WORKER_PAUSE": "0.5",
        }
    )

    assert settings.workers == WorkerSettings(embedding_batch=16, extraction_batch=5, pause_seconds=0.5)
    assert from_environment({}).workers == WorkerSettings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ROOMLORE_EMBEDDING_BATCH", "0"),
        ("ROOMLORE_EMBEDDING_BATCH", "5000"),
        ("ROOMLORE_EXTRACTION_BATCH", "many"),
        ("ROOMLORE_WORKER_PAUSE", "0"),
        ("ROOMLORE_WORKER_PAUSE", "nan"),
        ("ROOMLORE_WORKER_PAUSE", "soon"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadInput):
        from_environment({name: value})


async def test_the_worker_embeds_as_many_texts_together_as_the_setting_says(app: App) -> None:
    await app.ingest_batch([message(str(number), f"text {number}") for number in range(7)])
    app = replace(app, settings=Settings(workers=WorkerSettings(embedding_batch=3)))
    done: list[int] = []
    await app.drain(done.append)

    assert done == [3, 3, 1]


async def test_the_worker_looks_for_work_as_often_as_the_setting_says(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: set[float] = set()

    async def run(*_: Any, policy: runner.RetryPolicy, **__: Any) -> None:
        pauses.add(policy.poll_seconds)

    monkeypatch.setattr(runner, "run", run)
    app = replace(app, settings=Settings(workers=WorkerSettings(pause_seconds=7)))
    await app.run_worker(asyncio.Event())

    assert pauses == {7}
