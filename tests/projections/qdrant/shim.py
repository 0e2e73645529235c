"""Qdrant for tests: the engine of the real server in this process, behind as much of its HTTP as Roomlore speaks.

Started as a program of its own, so that it can be killed at any instant, and be started again on the same folder; the
first line that it prints is its port. It misbehaves as its options say.
"""

import argparse
import json
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import qdrant_edge as edge

Body = dict[str, Any]

SCHEMAS = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "datetime": edge.PayloadSchemaType.Datetime,
    "bool": edge.PayloadSchemaType.Bool,
}
#: The engine takes `true` in a filter for the number 1, which the server does not: beside each truth stands a number
#: under this ending, which filters by truth ask for and no answer shows.
TRUTH = "__truth"
#: What comes by POST and changes nothing: allowed to whoever may only read.
READING = ("/points/scroll", "/points/query")
DONE = {"operation_id": 0, "status": "completed"}


class Refusal(Exception):
    """What is answered in place of a result."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Collection:
    """A shard of the engine in a folder, and how it was asked for."""

    def __init__(self, folder: Path, asked: Body, shard: edge.EdgeShard) -> None:
        self.folder = folder
        self.asked = asked
        self.shard = shard

    @classmethod
    def create(cls, folder: Path, asked: Body) -> "Collection":
        folder.mkdir(parents=True)
        (folder / "shard").mkdir()
        shard = edge.EdgeShard.create(str(folder / "shard"), _config(asked))
        shard.flush()
        # Last, for only what has this file is there.
        half = folder / "asked.half"
        half.write_text(json.dumps(asked))
        half.rename(folder / "asked.json")
        return cls(folder, asked, shard)

    @classmethod
    def load(cls, folder: Path) -> "Collection":
        asked = json.loads((folder / "asked.json").read_text())
        return cls(folder, asked, edge.EdgeShard.load(str(folder / "shard")))

    def remove(self) -> None:
        self.shard.close()
        shutil.rmtree(self.folder)


class Collections:
    """All that a folder holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.named: dict[str, Collection] = {}
        root.mkdir(parents=True, exist_ok=True)
        for folder in sorted(root.iterdir()):
            if (folder / "asked.json").exists():
                self.named[folder.name] = Collection.load(folder)
            else:
                shutil.rmtree(folder)

    def __getitem__(self, name: str) -> Collection:
        if name not in self.named:
            raise Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.named[name]

    def create(self, name: str, asked: Body) -> bool:
        if name in self.named:
            raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
        self.named[name] = Collection.create(self.root / name, asked)
        return True

    def remove(self, name: str) -> bool:
        there = self.named.pop(name, None)
        if there is not None:
            there.remove()
        return there is not None


def _config(asked: Body) -> edge.EdgeConfig:
    dense = {
        name: edge.EdgeVectorParams(size=one["size"], distance=getattr(edge.Distance, one["distance"]))
        for name, one in asked["vectors"].items()
    }
    sparse = {
        name: edge.EdgeSparseVectorParams(
            modifier=edge.Modifier.Idf if one.get("modifier") == "idf" else None
        )
        for name, one in (asked.get("sparse_vectors") or {}).items()
    }
    return edge.EdgeConfig(vectors=dense, sparse_vectors=sparse)


def _vector(given: Any) -> Any:
    return edge.SparseVector(given["indices"], given["values"]) if isinstance(given, dict) else given


def _point(given: Body) -> edge.Point:
    vectors = {name: _vector(one) for name, one in given["vector"].items()}
    return edge.Point(UUID(given["id"]), vectors, _with_truths(given.get("payload") or {}))


def _with_truths(payload: Body) -> Body:
    truths = {f"{key}{TRUTH}": int(value) for key, value in payload.items() if isinstance(value, bool)}
    return payload | truths


def _shown(payload: Body | None) -> Body | None:
    return payload and {key: value for key, value in payload.items() if not key.endswith(TRUTH)}


def _match(given: Body) -> Any:
    return edge.MatchAny(given["any"]) if "any" in given else edge.MatchValue(given["value"])


def _range(given: Body) -> Any:
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    are_moments = any(isinstance(bound, str) for bound in bounds.values())
    return edge.RangeDateTime(**bounds) if are_moments else edge.RangeFloat(**bounds)


def _condition(given: Body) -> Any:
    if "key" in given:
        match, bounds = given.get("match"), given.get("range")
        is_truth = isinstance((match or {}).get("value"), bool)
        return edge.FieldCondition(
            given["key"] + (TRUTH if is_truth else ""),
            match=None if match is None else _match(match),
            range=None if bounds is None else _range(bounds),
        )
    if "has_id" in given:
        return edge.HasIdCondition({UUID(one) for one in given["has_id"]})
    if "is_empty" in given:
        return edge.IsEmptyCondition(given["is_empty"]["key"])
    return _filter(given)


def _filter(given: Body | None) -> edge.Filter | None:
    if given is None:
        return None
    if unknown := set(given) - {"must", "should", "must_not", "min_should"}:
        raise Refusal(400, f"unknown in a filter: {sorted(unknown)}")
    parts = {
        name: [_condition(one) for one in (some if isinstance(some, list) else [some])]
        for name in ("must", "should", "must_not")
        if (some := given.get(name)) is not None
    }
    return edge.Filter(**parts)


def _payload(given: Any) -> Any:
    return edge.PayloadSelector.Include(given) if isinstance(given, list) else bool(given)


def _upsert(collection: Collection, given: Body) -> None:
    points = [_point(one) for one in given["points"]]
    condition = _filter(given.get("update_filter"))
    collection.shard.update(edge.UpdateOperation.upsert_points(points, condition))


def _delete(collection: Collection, given: Body) -> None:
    collection.shard.update(edge.UpdateOperation.delete_points([UUID(one) for one in given["points"]]))


def _set_payload(collection: Collection, given: Body) -> None:
    if {name for name, one in given.items() if one is not None} != {"filter", "payload"}:
        raise Refusal(400, "not known here")
    change = edge.UpdateOperation.set_payload_by_filter(
        _filter(given["filter"]), _with_truths(given["payload"])
    )
    collection.shard.update(change)


def _index(collection: Collection, given: Body) -> None:
    schema = given["field_schema"]
    kind = schema if isinstance(schema, str) else schema["type"]
    wanted: Any = SCHEMAS[kind]
    if kind == "keyword" and not isinstance(schema, str):
        wanted = edge.KeywordIndexParams(is_tenant=schema.get("is_tenant"))
    collection.shard.update(edge.UpdateOperation.create_field_index(given["field_name"], wanted))


def _scroll(collection: Collection, given: Body) -> Body:
    offset = given.get("offset")
    points, following = collection.shard.scroll(
        edge.ScrollRequest(
            offset=None if offset is None else UUID(offset),
            limit=given.get("limit", 10),
            filter=_filter(given.get("filter")),
            with_payload=_payload(given.get("with_payload", True)),
        )
    )
    return {
        "points": [{"id": str(one.id), "payload": _shown(one.payload)} for one in points],
        "next_page_offset": None if following is None else str(following),
    }


def _query(collection: Collection, given: Body) -> Body:
    wanted = given["query"]
    wanted = wanted["nearest"] if isinstance(wanted, dict) and "nearest" in wanted else wanted
    found = collection.shard.query(
        edge.QueryRequest(
            limit=given.get("limit", 10),
            query=edge.Query.Nearest(_vector(wanted), using=given.get("using")),
            filter=_filter(given.get("filter")),
            with_payload=_payload(given.get("with_payload", False)),
            params=_search_params(given.get("params") or {}),
        )
    )
    points = [
        {"id": str(one.id), "version": 0, "score": one.score, "payload": _shown(one.payload)} for one in found
    ]
    return {"points": points}


def _search_params(given: Body) -> edge.SearchParams:
    acorn = edge.AcornSearchParams(**given["acorn"]) if given.get("acorn") else None
    return edge.SearchParams(hnsw_ef=given.get("hnsw_ef"), exact=bool(given.get("exact")), acorn=acorn)


def _info(collection: Collection) -> Body:
    info = collection.shard.info()
    names = {kind: name for name, kind in ((name, str(kind)) for name, kind in SCHEMAS.items())}
    return {
        "status": "green",
        "optimizer_status": "ok",
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "config": {
            "params": {key: collection.asked.get(key) for key in ("vectors", "sparse_vectors")},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
            "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
        },
        "payload_schema": {
            field: {"data_type": names[str(one.data_type)], "points": one.points}
            for field, one in info.payload_schema.items()
        },
    }


class Server:
    """Which path means what."""

    def __init__(self, collections: Collections, *, version: str, die_after: int | None) -> None:
        self.collections = collections
        self.version = version
        self.die_after = die_after
        self.changes = 0
        self.lock = threading.Lock()

    def answer(self, method: str, path: str, given: Body) -> Any:
        if path == "/" and method == "GET":
            return {"title": "qdrant - vector search engine", "version": self.version}
        if path == "/collections" and method == "GET":
            return {"collections": [{"name": name} for name in self.collections.named]}
        matched = re.fullmatch(r"/collections/([^/]+)(/.*)?", path)
        if matched is None:
            raise Refusal(404, "no such path")
        with self.lock:
            return self._of_collection(matched[1], method, matched[2] or "", given)

    def _of_collection(self, name: str, method: str, rest: str, given: Body) -> Any:
        if not rest and method == "PUT":
            return self.collections.create(name, given)
        if not rest and method == "DELETE":
            return self.collections.remove(name)
        collection = self.collections[name]
        if not rest and method == "PATCH":
            # A server looks anew at what is worth an index, whatever is changed.
            collection.shard.optimize()
            return True
        if not rest:
            return _info(collection)
        asking: dict[tuple[str, str], Callable[[Collection, Body], Any]] = {
            ("POST", "/points/scroll"): _scroll,
            ("POST", "/points/query"): _query,
        }
        if (ask := asking.get((method, rest))) is not None:
            return ask(collection, given)
        return self._change(collection, method, rest, given)

    def _change(self, collection: Collection, method: str, rest: str, given: Body) -> Any:
        match method, rest:
            case "PUT", "/index":
                _index(collection, given)
            case "PUT", "/points":
                self._apply(_upsert, collection, given)
            case "POST", "/points/delete":
                self._apply(_delete, collection, given)
            case "POST", "/points/payload":
                self._apply(_set_payload, collection, given)
            case "POST", "/points/batch":
                for operation in given["operations"]:
                    ((verb, content),) = operation.items()
                    self._apply({"upsert": _upsert, "delete": _delete}[verb], collection, content)
                return [DONE for _ in given["operations"]]
            case _:
                raise Refusal(404, "no such path")
        return DONE

    def _apply(self, change: Callable[[Collection, Body], None], collection: Collection, given: Body) -> None:
        change(collection, given)
        self.changes += 1
        if self.changes == self.die_after:
            os.kill(os.getpid(), signal.SIGKILL)


class Handler(BaseHTTPRequestHandler):
    """HTTP around the server, and its faults."""

    protocol_version = "HTTP/1.1"
    server_: ClassVar[Server]
    faults: ClassVar[argparse.Namespace]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is the library's
        """Say nothing."""

    def _handle(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(self.faults.slow)
        try:
            self._admit()
            path = self.path.split("?")[0]
            result = self.server_.answer(self.command, path, json.loads(raw) if raw else {})
        except Refusal as refusal:
            self._reply({"status": {"error": str(refusal)}, "time": 0.0}, refusal.status)
        except Exception as error:  # noqa: BLE001  what the engine does not take
            self._reply({"status": {"error": f"Wrong input: {error}"}, "time": 0.0}, 400)
        else:
            # Alone of all answers, what the server says of itself has nothing around it.
            content = result if path == "/" else {"result": result, "status": "ok", "time": 0.0}
            self._reply(content, 200)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815  the names are the library's

    def _admit(self) -> None:
        if self.faults.refuse:
            raise Refusal(503, "Service unavailable")
        if self.faults.turn_down and self.path.partition("?")[0].endswith("/points/batch"):
            raise Refusal(422, "not like this")
        path = self.path.partition("?")[0]
        # Whoever comes is told what this is, key or not.
        if self.faults.key is None or path == "/":
            return
        if (shown := self.headers.get("api-key")) is None:
            raise Refusal(401, "Must provide an API key or an Authorization bearer token")
        if shown not in {self.faults.key, self.faults.reading_key}:
            raise Refusal(401, f"Invalid API key or JWT: {shown}")
        is_reading = self.command == "GET" or (self.command == "POST" and path.endswith(READING))
        if shown != self.faults.key and not is_reading:
            raise Refusal(403, "Write access denied")

    def _reply(self, content: Body, status: int) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class QuietServer(ThreadingHTTPServer):
    """Has nothing to say of callers that leave."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--slow", type=float, default=0.0, help="seconds before anything is answered")
    parser.add_argument("--refuse", action="store_true", help="answer 503 to everything")
    parser.add_argument("--turn-down", action="store_true", help="answer 422 to every change of points")
    parser.add_argument("--key", help="answer 401 to whoever does not show it")
    parser.add_argument("--reading-key", help="answer 403 to whoever shows it, and changes something")
    parser.add_argument("--version", default="1.16.0", help="what it says that it is")
    parser.add_argument("--die-after", type=int, help="be killed after so many changes, before the answer")
    faults = parser.parse_args()
    Handler.faults = faults
    collections = Collections(faults.folder)
    Handler.server_ = Server(collections, version=faults.version, die_after=faults.die_after)
    with QuietServer(("127.0.0.1", faults.port), Handler) as server:
        print(server.server_address[1], flush=True)  # noqa: T201  whoever started it waits for this
        server.serve_forever()


if __name__ == "__main__":
    main()
