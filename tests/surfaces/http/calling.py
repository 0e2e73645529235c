"""Calls over HTTP, each response held against the description of its operation."""

import re
from collections.abc import Iterable
from typing import Any

import httpx2
import jsonschema_rs
import pytest
from fastapi import FastAPI

from roomlore.http.headers import HEADERS, REQUEST_ID

#: Of documentation: nobody's address.
ELSEWHERE = "203.0.113.5"
UNDESCRIBED = ("/metrics", "/v1/openapi.json")


def mostly_slow(names: Iterable[str], *fast: str) -> list[Any]:
    """Return parameters of which only the named ones are in the fast suite."""
    return [name if name in fast else pytest.param(name, marks=pytest.mark.slow) for name in names]


class Described:
    """The description, as what judges responses."""

    def __init__(self, api: FastAPI) -> None:
        self.document = api.openapi()
        self._paths = [
            (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))), item)
            for path, item in sorted(self.document["paths"].items(), key=lambda pair: "{" in pair[0])
        ]
        self._validators: dict[str, Any] = {}

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        items = [item for pattern, item in self._paths if pattern.fullmatch(path)]
        return next((item[method.lower()] for item in items if method.lower() in item), None)

    def check(self, response: httpx2.Response) -> None:
        """Fail where a response is not as it is described."""
        request = response.request
        assert response.headers[REQUEST_ID]
        assert all(response.headers[name] for name in HEADERS)
        assert "server" not in response.headers
        assert not any(name.startswith("access-control") for name in response.headers)
        # A slash that was sent encoded takes no path apart.
        sent = request.url.raw_path.decode().partition("?")[0].lower()
        path = request.url.path if "%2f" not in sent else sent.replace("%2f", "_")
        operation = self.operation(request.method, path)
        if operation is None:
            assert response.status_code in {401, 404, 405} or request.url.path in UNDESCRIBED
            return
        assert str(response.status_code) in operation["responses"], (request.url.path, response.text)
        told = operation["responses"][str(response.status_code)]
        if "$ref" in told:
            told = self.document["components"]["responses"][told["$ref"].rpartition("/")[2]]
        content = told.get("content", {})
        kind = response.headers.get("content-type", "")
        assert (kind in content) if content else not response.content, (kind, response.text)
        for media in content.values():
            self._validator(media["schema"]).validate(response.json())

    def _validator(self, schema: dict[str, Any]) -> Any:
        key = repr(schema)
        if key not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return self._validators[key]


class Caller:
    """Somebody who calls, with a key or without."""

    def __init__(self, api: FastAPI, described: Described, key: str | None = None) -> None:
        self.api = api
        self.described = described
        self.key = key

    def headers(self, viewer: str | None = None) -> dict[str, str]:
        shown = {} if self.key is None else {"authorization": f"Bearer {self.key}"}
        return shown | ({} if viewer is None else {"roomlore-viewer": viewer})

    async def __call__(
        self, method: str, path: str, json: Any = None, *, viewer: str | None = None, **rest: Any
    ) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self.api, client=rest.pop("client", (ELSEWHERE, 4711)))
        headers = [*(self.headers(viewer) | dict(rest.pop("headers", {}))).items(), *rest.pop("besides", ())]
        async with httpx2.AsyncClient(transport=transport, base_url="http://roomlore.test") as client:
            if json is not None:
                rest["json"] = json
            response = await client.request(method, path, headers=headers, **rest)
        self.described.check(response)
        return response

    async def get(self, path: str, **rest: Any) -> Any:
        """Return what a path shows; fail where it shows nothing."""
        response = await self("GET", path, **rest)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, json: Any = None, **rest: Any) -> Any:
        """Return what comes of a change; fail where it is refused."""
        response = await self("POST", path, json, **rest)
        assert response.status_code in {200, 201}, response.text
        return response.json()
