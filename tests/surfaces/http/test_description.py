"""The committed description is that of the routes, and says of each what it does."""

import json
from pathlib import Path

from roomlore.http.application import routes_app
from roomlore.http.openapi import METHODS, openapi_document, openapi_text
from surfaces.http.conftest import Served

KEPT = Path(__file__).parents[3] / "docs" / "openapi.json"


def test_the_committed_description_is_that_of_the_routes() -> None:
    assert KEPT.read_text(encoding="utf-8") == openapi_text(routes_app()), "run: make openapi"


def test_every_operation_says_what_it_does_and_what_may_go_wrong() -> None:
    operations = [
        (path, item[method])
        for path, item in openapi_document(routes_app())["paths"].items()
        for method in METHODS
        if method in item
    ]

    assert len({operation["operationId"] for _, operation in operations}) == len(operations)
    for path, operation in operations:
        assert operation["summary"], path
        assert len(operation["tags"]) == 1, path
        # FastAPI's own way to say that something is not of its shape; ours is 400.
        assert "HTTPValidationError" not in str(operation["responses"]), path
        if path.startswith("/v1"):
            assert operation["security"] == [{"key": []}], path
            assert {"400", "401", "403", "404", "429", "500", "503"} <= set(operation["responses"]), path


async def test_it_is_served_to_whoever_has_a_key(served: Served) -> None:
    assert await served.operator.get("/v1/openapi.json") == json.loads(KEPT.read_text(encoding="utf-8"))
