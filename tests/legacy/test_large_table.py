"""Twenty thousand rows of bots and people, broken rows among them, with a process that is killed on the way."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from legacy.conftest import Legacy
from legacy.test_chat_history import IDS, NOON, message_id
from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine, clean_environment

ROWS = 20_000
COLUMNS = (
    "user_id character_name role content timestamp channel_id message_id user_name metadata author_id author_is_bot"
    " reply_to_msg_id"
).split()
PEOPLE = [str(100000000000000000 + number) for number in range(60)]
CHANNELS = [str(300000000000000000 + number) for number in range(12)]
CHARACTERS = [*IDS, "dotty"]
#: What makes a row no message: one field.
BROKEN = {
    "no text": ("content", None),
    "no time": ("timestamp", None),
    "unknown role": ("role", "narrator"),
    "id too long": ("channel_id", "7" * 300),
    "absurd date": ("timestamp", "1901-01-01T00:00:00Z"),
}


def rows(chance: random.Random) -> tuple[list[list[object]], Counter[str]]:
    """Return rows, and how many are broken by reason."""
    made, broken, people = list[list[object]](), Counter[str](), list[dict[str, object]]()
    for number in range(ROWS):
        told = row(number, chance)
        if chance.random() < 0.05:
            reason = chance.choice(list(BROKEN))
            field, value = BROKEN[reason]
            told[field] = value
            broken[reason] += 1
        elif people and chance.random() < 0.02:
            # Another bot noted the same message.
            told = chance.choice(people[-50:]) | {"character_name": chance.choice(CHARACTERS)}
        elif told["role"] == "human":
            people.append(told)
        made.append([told[column] for column in COLUMNS])
    return made, broken


def row(number: int, chance: random.Random) -> dict[str, object]:
    character, user = chance.choice(CHARACTERS), chance.choice(PEOPLE)
    is_bot, is_new, is_direct = chance.random() < 0.45, chance.random() < 0.5, chance.random() < 0.3
    if is_bot and not is_direct and chance.random() < 0.1:
        user = "channel_" + chance.choice(CHANNELS)
    return {
        "user_id": user,
        "character_name": character,
        "role": "ai" if is_bot else "human",
        "content": f"{chance.choice(['Ahoy', 'Tide tables', 'ça va', 'ねこ'])} {number}",
        "timestamp": (NOON + timedelta(seconds=number * 37)).isoformat(),
        "channel_id": None if is_direct or user.startswith("channel_") else chance.choice(CHANNELS),
        "message_id": None if chance.random() < 0.1 else message_id(number),
        "user_name": None if chance.random() < 0.2 else f"Person {user[-2:]}",
        "metadata": None if chance.random() < 0.7 else '{"action_type": "reply", "n": 1.5}',
        "author_id": (IDS.get(character, character) if is_bot else user) if is_new else None,
        "author_is_bot": is_bot and is_new,
        "reply_to_msg_id": None if chance.random() < 0.8 else message_id(max(number - 3, 0)),
    }


def stored(cluster: Cluster, org: str) -> int:
    with psycopg.connect(cluster.admin_dsn, options="-c search_path=roomlore") as conn:
        [count] = conn.execute(
            "select count(*) from messages where org_id = (select org_id from orgs where name = %s)", [org]
        ).fetchone() or [0]
    return count


@pytest.mark.slow
def test_a_large_table_goes_in_once_although_its_migration_is_killed(
    cluster: Cluster, legacy: Legacy, tmp_path
):
    made, broken = rows(random.Random(14))
    legacy.copy(COLUMNS, made)
    agents = tmp_path / "agents.toml"
    agents.write_text("".join(f'{name} = "{account}"\n' for name, account in IDS.items()))
    command_line = CommandLine(cluster=cluster)
    words = ["migrate", "chat-history", legacy.dsn, "--agents", str(agents)]
    started = subprocess.Popen(
        [sys.executable, "-m", "roomlore", *command_line.options, *words],
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not stored(cluster, command_line.org):
        assert started.poll() is None
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    before = stored(cluster, command_line.org)
    assert 0 < before < ROWS
    report = command_line.json(*words)
    assert report["rows"] == ROWS
    assert {reason: report["skipped"][reason] for reason in broken} == broken
    parity = report["parity"]
    assert parity["is_equal"] is True
    assert parity["sampled"] == 200
    assert (parity["unexplained"], parity["counts"]) == ({}, [])
    assert parity["compared"] + sum(parity["explained"].values()) == ROWS
    assert parity["compared"] == before + report["stored"]["added"] == stored(cluster, command_line.org)
    assert report["characters_without_id"].keys() == {"dotty"}
    again = command_line.json(*words)
    assert again["stored"]["added"] == again["stored"]["revised"] == 0
    assert again["parity"] == parity
