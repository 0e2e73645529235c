"""conversations and conversation on the command line: read, put right, and as text that nothing stored can forge."""

import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli import main

FORGED = "Lunch\n0192 #9 [Cy]: mine\u2028#m1 \x1b[31m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def said(number: int, who: str, text: str, **fields) -> str:
    record = {
        "schema": "roomlore.message/1",
        "room": "general",
        "id": str(number),
        "author": who,
        "text": text,
        "sent_at": f"2026-01-12T08:0{number}:00Z",
    }
    return json.dumps(record | fields)


LINES = [
    said(1, "ana", "when does the ferry leave"),
    said(2, "bo", "at nine", reply_to="1"),
    said(3, "pip", "nine is early", reply_to="2"),
    said(4, "cy", "apples are cheap"),
    said(5, "ana", "who knows", room={"id": "attic", "visibility": "members", "members": ["ana", "pip"]}),
]


@pytest.fixture(scope="module")
def org() -> str:
    return f"cli-{uuid4()}"


@pytest.fixture(scope="module")
def roomlore(cluster, tmp_path_factory, org: str):
    """The command line, on an org with a little room and a closed one, in which nothing was untangled."""
    url = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"

    def run(*words) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", ["roomlore", "--json", "--database", url, "--org", org, *words])
            with pytest.raises(SystemExit) as end:
                main.run()
        return Done(code=end.value.code, out=out.getvalue(), err=err.getvalue())

    export = tmp_path_factory.mktemp("export") / "said.jsonl"
    export.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    done = run("import", "--no-embed", "--agent", "pip", str(export))
    assert done.code == 0, done.err
    return run


@pytest.fixture
def talks(cluster, roomlore, org: str) -> dict[str, str]:
    """What was said, placed as a worker would; ids by label."""
    assert roomlore is not None
    ids = {}
    with psycopg.connect(
        cluster.admin_dsn, autocommit=True, options="-c search_path=roomlore,public"
    ) as admin:
        [org_id] = admin.execute("select org_id from orgs where name = %s", [org]).fetchone()
        for table in ("placements", "conversations"):
            admin.execute(f"delete from {table} where org_id = %s", [org_id])
        for label, marks in {"ferry": ["1", "2", "3"], "": ["4"], "attic talk": ["5"]}.items():
            ids[label] = str(uuid4())
            admin.execute(
                "insert into conversations"
                " (org_id, id, room_id, label, boundary, opened_at, last_at, quiet_after)"
                " select org_id, %s, room_id, %s, 'first', min(sent_at), max(sent_at), '30 minutes'"
                " from messages where org_id = %s and external_id = any (%s) group by org_id, room_id",
                [ids[label], label, org_id, marks],
            )
            admin.execute(
                "insert into placements select org_id, id, %s from messages"
                " where org_id = %s and external_id = any (%s)",
                [ids[label], org_id, marks],
            )
    return ids


def answer(done: Done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def text(done: Done) -> list[str]:
    assert done.code == 0, done.err
    return done.out.splitlines()


def refused(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    for word in words:
        assert word in done.err


def test_conversations_are_listed_as_a_table_and_as_json(roomlore, talks):
    listed = answer(roomlore("conversations", "general"))
    assert [one["label"] for one in listed] == ["", "ferry"]
    ferry = listed[1]
    assert (ferry["id"], ferry["message_count"], ferry["is_open"]) == (talks["ferry"], 3, False)
    assert {(one["name"], one["kind"], one["message_count"]) for one in ferry["talkers"]} == {
        ("ana", "human", 1),
        ("bo", "human", 1),
        ("pip", "agent", 1),
    }
    head, unnamed, row = text(roomlore("--text", "conversations", "general"))
    assert head.split() == ["conversation", "id", "who", "messages", "opened", "last", "state", "boundary"]
    assert unnamed.split()[:2] == ["(no", "label)"]
    assert talks["ferry"][-8:] in row
    for word in ("ferry", "pip (bot) 1", "2026-01-12 08:01", "2026-01-12 08:03", "quiet", "first"):
        assert word in row
    assert len(answer(roomlore("conversations", "--limit", "1"))) == 1
    answer(roomlore("conversation", "mark", talks["ferry"], "sensitive"))
    # Cy spoke in the other one only.
    assert [one["id"] for one in answer(roomlore("--as", "cy", "conversations"))] == [talks[""]]
    answer(roomlore("conversation", "merge", talks["ferry"], talks[""]))
    assert text(roomlore("--text", "--as", "cy", "conversations")) == ["no conversations"]


def test_a_conversation_is_shown_with_who_answers_whom(roomlore, talks):
    for word in (talks["ferry"], talks["ferry"][:13], talks["ferry"][-8:], "message:2"):
        shown = answer(roomlore("conversation", "show", word))
        assert shown["id"] == talks["ferry"]
        assert [one["message"]["external_id"] for one in shown["messages"]] == ["1", "2", "3"]
        assert shown["messages"][2]["answers"]["parent_id"] == shown["messages"][1]["message"]["id"]
    lines = text(roomlore("--text", "conversation", "show", talks["ferry"]))
    assert lines[0] == f"{talks['ferry'][-8:]} ferry"
    assert "3 messages, 2026-01-12 08:01 to 2026-01-12 08:03, quiet" in lines[1]
    assert lines[3:] == [
        "2026-01-12 08:01 #1 [ana]: when does the ferry leave  1",
        "2026-01-12 08:02 #2 → #1 [bo]: at nine  2",
        "2026-01-12 08:03 #3 → #2 [pip (bot)]: nine is early  3",
    ]
    lines = text(roomlore("--text", "conversation", "show", talks["ferry"], "--limit", "1"))
    assert "2 earlier messages left out" in lines[3]
    assert lines[4:] == ["2026-01-12 08:03 #3 → elsewhere [pip (bot)]: nine is early  3"]


def test_conversations_are_put_right(roomlore, talks):
    moved = answer(roomlore("conversation", "move", "2", "message:4"))
    assert (moved["id"], moved["message_count"]) == (talks[""], 3)
    made = answer(roomlore("conversation", "split", "3", "--label", "Early", "--room", "general"))
    assert (made["label"], made["boundary"], made["message_count"]) == ("Early", "person", 1)
    merged = answer(roomlore("conversation", "merge", talks["ferry"], made["id"]))
    assert merged["message_count"] == 2
    assert answer(roomlore("conversation", "rename", talks["ferry"], "Boats"))["is_named"]
    assert not answer(roomlore("conversation", "rename", talks["ferry"], ""))["is_named"]
    assert answer(roomlore("conversation", "mark", talks["ferry"], "sensitive"))["sensitivity"] == "sensitive"
    lines = text(roomlore("--text", "conversation", "show", talks["ferry"]))
    assert lines[1].endswith("sensitive")
    assert "#2 → elsewhere" in lines[-1]


def test_each_sees_and_changes_what_they_may(roomlore, talks):
    assert len(answer(roomlore("--as", "cy", "conversations"))) == 2
    assert len(answer(roomlore("--as", "ana", "conversations"))) == 3
    hidden = f"no conversation '{talks['attic talk']}'"
    refused(roomlore("--as", "cy", "conversation", "show", talks["attic talk"]), 1, hidden)
    refused(roomlore("--as", "cy", "conversation", "rename", talks["attic talk"], "mine"), 1, hidden)
    assert (
        answer(roomlore("--as", "cy", "conversation", "rename", talks["ferry"], "Boats"))["label"] == "Boats"
    )
    refused(roomlore("--as", "pip", "conversation", "rename", talks["ferry"], "mine"), 1, "not allowed")


def test_no_label_passes_for_a_line_of_its_own(roomlore, talks):
    shown = roomlore("--text", "conversation", "rename", talks["ferry"], FORGED)
    lines = text(shown)
    assert lines[0].startswith(f"{talks['ferry'][-8:]} Lunch 0192 #9 [Cy]: mine ")
    for done in (
        shown,
        roomlore("--text", "conversations"),
        roomlore("--text", "conversation", "show", talks["ferry"]),
    ):
        assert "\x1b" not in done.out
        assert "#m1" not in done.out
        assert not [one for one in text(done) if re.match(r"\s*(0192|#9|\[Cy\])", one)]


def test_mistakes_are_told_in_one_line(roomlore, talks):
    refused(roomlore("conversations", "nowhere"), 1, "no room 'nowhere'")
    refused(roomlore("conversation", "show", "message:99"), 1, "no message '99'")
    refused(roomlore("conversation", "move", "5", talks["ferry"]), 1, "of one room")
    refused(roomlore("conversation", "merge", talks["ferry"], talks["ferry"]), 1, "is the one")
    refused(roomlore("conversation", "rename", talks["ferry"], "x" * 101), 1, "longer than 100")
    refused(roomlore("conversation", "mark", talks["ferry"], "secret"), 2, "secret")
    refused(roomlore("conversation", "split"), 2, "MESSAGE")
