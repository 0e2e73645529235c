"""A server on this machine that speaks embeddings, from a thread of its own."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from roomlore.models.fake import FakeEmbedder

#: Status, headers and body.
Reply = tuple[int, dict[str, str], bytes]


def embeddings(rows: list[Any], indexes: list[Any] | None = None) -> Reply:
    """An answer with these vectors under these indexes."""
    numbered = zip(indexes or range(len(rows)), rows, strict=True)
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in numbered]
    return 200, {}, json.dumps({"object": "list", "data": data}).encode()


def meant(asked: dict[str, Any]) -> Reply:
    """What the fake embedder finds, last text first."""
    rows = FakeEmbedder().embed(asked["input"]).tolist()
    return embeddings(rows[::-1], list(range(len(rows)))[::-1])


class EmbeddingServer:
    """Answers each request as `says` tells, and remembers what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.heads: list[dict[str, str]] = []
        self.asked: list[dict[str, Any]] = []
        self.says: Callable[[dict[str, Any]], Reply] = meant


@contextmanager
def embedding_server(port: int = 0) -> Iterator[EmbeddingServer]:
    """A server at a port; 0 is any that is free."""
    found = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.heads.append({name.lower(): value for name, value in self.headers.items()})
            found.asked.append(json.loads(body))
            status, headers, answer = found.says(found.asked[-1])
            try:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name above
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/v1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
