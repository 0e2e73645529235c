"""Reads single conversations out of public corpora: `python -m training.corpora MIRROR OUT`.

MIRROR has one folder per repository (`owner+name`, a git directory or a checkout of it); a corpus whose repository is
missing is left out. OUT gets one JSON object per line: corpus, id, turns (pairs of speaker and text).

HELD_OUT corpora only measure: their licences do not allow weights to be made of them.
"""

import argparse
import csv
import gzip
import io
import json
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Turns = list[tuple[str, str]]

HELD_OUT = frozenset({"daily", "meld"})
#: The most conversations of one corpus.
MOST = 2_400
#: Turns of a meeting that are read as one conversation.
MEETING_TURNS = 20
LONGEST_TURN = 400

_BLANKS = re.compile(r"\s+")
_BEFORE_MARK = re.compile(r" ([.,!?;:%)])")
_APOSTROPHE = re.compile(r" ?' ?(s|t|re|ve|ll|d|m)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mirror:
    """A folder with git directories of public repositories."""

    root: Path

    def read(self, repository: str, path: str) -> str:
        """Return the text of a file of the newest commit; empty if it is missing."""
        folder = self.root / repository.replace("/", "+") / "repo"
        git = folder / ".git" if (folder / ".git").is_dir() else folder
        command = ["git", f"--git-dir={git}", "show", f"HEAD:{path}"]
        return subprocess.run(command, capture_output=True, check=False).stdout.decode("utf-8", "replace")


def plain(text: str) -> str:
    """Return a text without the blanks of its tokenisation."""
    text = _APOSTROPHE.sub(r"'\1", _BEFORE_MARK.sub(r"\1", text.replace("\u2019", "'")))
    return _BLANKS.sub(" ", text.replace(" n't", "n't")).strip()


def schema_guided(mirror: Mirror) -> Iterator[Turns]:
    """Schema-Guided Dialogue (CC BY-SA 4.0)."""
    for number in range(1, 61):
        text = mirror.read(
            "google-research-datasets/dstc8-schema-guided-dialogue", f"train/dialogues_{number:03d}.json"
        )
        for dialogue in json.loads(text or "[]")[:40]:
            yield [(turn["speaker"], turn["utterance"]) for turn in dialogue["turns"]]


def taskmaster(mirror: Mirror) -> Iterator[Turns]:
    """Taskmaster-4 (CC BY 4.0)."""
    for number in ("00", "02", "05", "07"):
        text = mirror.read("google-research-datasets/Taskmaster", f"TM-4-2024/data/data_{number}.json")
        for dialogue in json.loads(text or "[]")[:500]:
            yield [(turn.get("speaker", ""), turn.get("text", "")) for turn in dialogue["utterances"]]


def topical_chat(mirror: Mirror) -> Iterator[Turns]:
    """Topical-Chat (CDLA-Sharing)."""
    for part in ("valid_freq", "valid_rare", "test_freq", "test_rare"):
        text = mirror.read("alexa/Topical-Chat", f"conversations/{part}.json")
        for dialogue in json.loads(text or "{}").values():
            yield [(turn["agent"], turn["message"]) for turn in dialogue["content"]]


def daily(mirror: Mirror) -> Iterator[Turns]:
    """DailyDialog in the files of RECCON (non-commercial; only measures)."""
    for part in ("valid", "test", "train"):
        text = mirror.read("declare-lab/RECCON", f"data/original_annotation/dailydialog_{part}.json")
        for dialogue in json.loads(text or "{}").values():
            yield [(turn["speaker"], plain(turn["utterance"])) for turn in dialogue[0]]


def meld(mirror: Mirror) -> Iterator[Turns]:
    """MELD (GPL-3.0, of a television series; only measures)."""
    for part in ("dev", "test", "train"):
        scenes: dict[str, Turns] = defaultdict(list)
        text = mirror.read("declare-lab/MELD", f"data/MELD/{part}_sent_emo.csv")
        for row in csv.DictReader(io.StringIO(text)):
            scenes[row["Dialogue_ID"]].append((row["Speaker"], plain(row["Utterance"])))
        yield from scenes.values()


def bench(folder: Path) -> dict[str, Callable[[], Iterator[Turns]]]:
    """Return readers of the development data sets: meetings (QMSum, MIT) and IRC (CC BY 4.0)."""

    def meetings() -> Iterator[Turns]:
        said = _by_room(folder / "qmsum-train")
        for line in _lines(folder / "qmsum-train" / "topics.jsonl"):
            for topic in line["topics"]:
                first, last = topic["spans"][0]
                turns = [
                    (one["author_name"], plain(re.sub(r"\{\w+\}", "", one["text"])))
                    for one in said[line["room"]][first : last + 1]
                ]
                yield [turn for turn in turns if len(turn[1]) < LONGEST_TURN][:MEETING_TURNS]

    def irc() -> Iterator[Turns]:
        messages = {one["id"]: one for one in _lines(folder / "irc-train" / "messages.jsonl.gz")}
        for line in _lines(folder / "irc-train" / "conversations.jsonl.gz"):
            said = [messages[each] for each in line["message_ids"] if each in messages]
            turns = [(one["author_name"], one["text"]) for one in said if not one.get("system")][:30]
            if len(turns) > 2:  # noqa: PLR2004  a question and an answer say little
                yield turns

    return {"qmsum": meetings, "irc": irc}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    yield from (json.loads(line) for line in text.split("\n") if line)


def _by_room(folder: Path) -> dict[str, list[dict[str, Any]]]:
    rooms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in _lines(folder / "messages.jsonl.gz"):
        rooms[one["room"]].append(one)
    return rooms


def main() -> None:
    """Write the conversations of all corpora."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirror", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bench", type=Path, help="the folder with qmsum-train and irc-train")
    options = parser.parse_args()
    mirror = Mirror(options.mirror)
    readers: dict[str, Callable[[], Iterator[Turns]]] = {
        "sgd": lambda: schema_guided(mirror),
        "tm4": lambda: taskmaster(mirror),
        "topical": lambda: topical_chat(mirror),
        "daily": lambda: daily(mirror),
        "meld": lambda: meld(mirror),
        **(bench(options.bench) if options.bench else {}),
    }
    with options.out.open("w") as out:
        for corpus, read in readers.items():
            found = [(place, _clean(turns)) for place, turns in enumerate(read())]
            found = [(place, turns) for place, turns in found if len(turns) > 1]
            chosen = random.Random(corpus).sample(found, min(MOST, len(found)))  # noqa: S311  not a secret
            print(f"{corpus}: {len(chosen)} conversations")  # noqa: T201  a script's progress
            for place, turns in chosen:
                out.write(
                    json.dumps(
                        {"corpus": corpus, "id": f"{corpus}/{place}", "turns": turns}, ensure_ascii=False
                    )
                    + "\n"
                )


def _clean(turns: Turns) -> Turns:
    cleaned = [(str(speaker), _BLANKS.sub(" ", text or "").strip()) for speaker, text in turns]
    return [(speaker, text) for speaker, text in cleaned if text]


if __name__ == "__main__":
    main()
