"""The embedding model of an org on the command line."""

import json
from collections.abc import Generator

import pytest

from models.embeddingserver import embedding_server, embeddings
from roomlore.models.fake import FakeEmbedder
from surfaces.commandline import CommandLine, line

KEY = "sesame-opens-nothing"


def vectors(request):
    """Return vectors with as many dimensions as the name of the model says."""
    return embeddings(FakeEmbedder(int(request["model"])).embed(request["input"]).tolist())


class Village(CommandLine):
    """A command line whose models are behind an address."""

    environment: dict[str, str]

    def __call__(self, *words, **options):
        done = super().__call__(*words, **options, **self.environment)
        assert KEY not in done.out + done.err
        return done


@pytest.fixture
def village(cluster, tmp_path, monkeypatch) -> Generator[CommandLine]:
    with embedding_server() as server:
        server.says = vectors
        file = tmp_path / "embeddings.json"
        file.write_text(json.dumps({"small": {"url": server.url, "model": "32", "key_from": "SMALL_KEY"}}))
        environment = {"ROOMLORE_EMBEDDINGS": str(file), "SMALL_KEY": KEY}
        environment |= {"ROOMLORE_EMBEDDING_URL": server.url, "ROOMLORE_EMBEDDING_NAME": "64"}
        monkeypatch.setattr(Village, "environment", environment, raising=False)
        village = Village(cluster=cluster)
        village.tell(tmp_path, [line(1, "ana", "where is the key?"), line(2, "ana", "under the mat")])
        yield village


def states(village) -> dict[str, dict]:
    return {one["state"]: one for one in village.json("model", "status")}


@pytest.mark.slow
def test_a_model_is_switched_and_reverted(village) -> None:
    [current] = village.text("model", "status").splitlines()
    assert current.startswith("current")
    assert "default (http/64" in current
    assert current.endswith("2 of 2 texts embedded")
    assert "small is next: 2 texts to be embedded by the worker" in village.text("model", "switch", "small")
    assert states(village)["next"]["waiting"] == 2
    assert "canceled" in village.text("model", "revert")
    assert village.text("model", "switch", "small", "--wait") == "searches use small now\n"
    now = states(village)
    assert (now["current"]["provider"], now["current"]["dimensions"]) == ("small", 32)
    assert now["previous"]["provider"] == "default"
    assert "under the mat" in village.text("search", "mat")
    assert village.text("model", "revert") == "searches use default now\n"
    assert village.json("model", "switch", "default")["is_done"]

    village.refused(1, "must be one of default, small", "model", "switch", "large")
    village.refused(1, "not allowed", "--as", "ana", "model", "status")
