"""wishes on the command line: listed, dismissed, accepted; and what an org does with them."""

import io
import json
import os
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from psycopg.conninfo import conninfo_to_dict

from roomlore.cli import main

#: No part of an id looks like it.
SECRET = re.compile(r"4412[- ]9981")


def said(number: int, who: str, text: str) -> str:
    record = {
        "schema": "roomlore.message/1",
        "room": "general",
        "id": str(number),
        "author": who,
        "text": text,
        "sent_at": f"2026-01-1{number}T08:00:00Z",
    }
    return json.dumps(record)


@pytest.fixture
def roomlore(cluster, tmp_path):
    """The command line, on an org in which Ana wants something forgotten."""
    org, url = f"cli-{uuid4()}", f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"

    def run(*words) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("ROOMLORE_")]:
                patch.delenv(name)
            patch.setattr(sys, "argv", ["roomlore", "--json", "--database", url, "--org", org, *words])
            with pytest.raises(SystemExit) as end:
                main.run()
        return end.value.code, out.getvalue(), err.getvalue()

    export = tmp_path / "said.jsonl"
    lines = [
        said(1, "ana", "my village account is 4412-9981"),
        said(2, "bo", "noted: village 4412 9981"),
        said(3, "ana", "please forget that"),
    ]
    export.write_text("\n".join(lines))
    assert run("import", "--no-embed", str(export))[0] == 0
    return run


def listed(roomlore, *words) -> list[dict]:
    code, out, err = roomlore("--json", *words, "wishes")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_wish_is_listed_with_what_it_covers_dismissed_and_accepted(roomlore):
    [wish] = listed(roomlore)
    assert (wish["kind"], wish["status"], wish["author_name"]) == ("forget", "active", "ana")
    assert [one["external_id"] for one in wish["covers"]] == ["1", "2", "3"]
    code, out, _ = roomlore("--json", "search", "village account")
    assert code == 0
    assert not SECRET.search(out)
    # What the operator is not shown, they are told of.
    assert {one["wish_id"] for one in json.loads(out)["withheld"]} == {wish["id"]}
    assert (
        f"asked by ana; roomlore wishes lists request {wish['id'][-8:]}"
        in roomlore("--text", "show", "general")[1]
    )
    assert "spoken requests changed this answer" in roomlore("--text", "ask", "village account")[2]
    assert "spoken requests" not in roomlore("--text", "--as", "bo", "ask", "village account")[2]
    assert roomlore("wishes", "dismiss", wish["id"])[0] == 0
    assert SECRET.search(roomlore("--json", "search", "village account")[1])
    assert listed(roomlore)[0]["status"] == "dismissed"
    assert roomlore("wishes", "accept", wish["id"])[0] == 0
    assert not SECRET.search(roomlore("--json", "search", "village account")[1])


@pytest.mark.parametrize("words", [("search", "village account"), ("ask", "village account"), ("context",)])
def test_an_operator_who_names_a_room_is_told_beside_what_may_be_posted(roomlore, words):
    verb, *asked = words
    where = ["general", "--at", "2"] if verb == "context" else [*asked, "--room", "general"]
    [wish] = listed(roomlore)
    code, out, err = roomlore("--text", verb, *where)
    assert code == 0
    assert f"roomlore wishes lists request {wish['id'][-8:]}" in err
    assert "withheld" not in out
    assert "request" not in out
    assert not SECRET.search(out)
    told = json.loads(roomlore("--json", verb, *where)[1])["withheld"]
    assert {one["wish_id"] for one in told} == {wish["id"]}
    assert "withheld" not in roomlore("--text", "--as", "bo", verb, *where)[2]


def test_an_org_hears_no_requests_or_only_proposes_them(roomlore):
    assert json.loads(roomlore("--json", "wishes", "mode")[1]) == {"mode": "on"}
    assert roomlore("wishes", "mode", "off")[0] == 0
    assert SECRET.search(roomlore("--json", "search", "village account")[1])
    assert json.loads(roomlore("--json", "wishes", "mode", "propose")[1]) == {"mode": "propose"}
    assert not SECRET.search(roomlore("--json", "search", "village account")[1])
    assert roomlore("--as", "ana", "wishes", "mode", "off")[0] == 1


def test_everybody_sees_their_own_wishes_only(roomlore):
    assert len(listed(roomlore, "--as", "ana")) == 1
    assert listed(roomlore, "--as", "bo") == []


def test_a_wish_that_is_not_there_is_an_error_without_a_traceback(roomlore):
    code, _, err = roomlore("wishes", "dismiss", "0000")
    assert code == 1
    assert "no wish" in err
    assert "Traceback" not in err


def test_show_prints_the_room_as_it_was_said(roomlore):
    code, out, _ = roomlore("--json", "show", "general")
    assert code == 0
    assert "4412-9981" in out
    assert "please forget that" in out
