"""Privacy requests on the command line: listed, applied, dismissed; and the mode of an org."""

import re

import pytest

from surfaces.commandline import CommandLine, line

#: No part of an id looks like it.
SECRET = re.compile(r"4412[- ]9981")
SEARCH = ("--json", "search", "village account")


@pytest.fixture
def org(roomlore: CommandLine, tmp_path) -> CommandLine:
    """An org in which Ana asked to forget something."""
    lines = [
        line(1, "ana", "my village account is 4412-9981"),
        line(2, "bo", "noted: village 4412 9981"),
        line(3, "ana", "please forget that"),
    ]
    roomlore.tell(tmp_path, lines, "--no-embed")
    return roomlore


@pytest.mark.slow
def test_a_request_is_listed_with_what_it_covers_dismissed_and_applied(org: CommandLine) -> None:
    [request] = org.json("privacy", "requests")
    assert (request["kind"], request["status"], request["author_name"]) == ("forget", "active", "ana")
    assert [one["external_id"] for one in request["covered_messages"]] == ["1", "2", "3"]
    assert "forgotten: shown to nobody" in org.text("privacy", "requests")
    assert [len(org.json("--as", name, "privacy", "requests")) for name in ("ana", "bo")] == [1, 0]
    assert not SECRET.search(org(*SEARCH).out)
    assert {one["request_id"] for one in org.json("search", "village account")["restrictions"]} == {
        request["id"]
    }
    # `messages` shows the whole room, and marks what is withheld elsewhere.
    shown = org.text("messages", "general")
    assert "4412-9981" in shown
    assert f"asked by ana; roomlore privacy requests lists it as {request['id'][-8:]}" in shown
    assert "privacy requests changed this answer" in org("--text", "ask", "village account").err
    assert "privacy requests" not in org("--text", "--as", "bo", "ask", "village account").err

    assert org("privacy", "dismiss", request["id"]).code == 0
    assert SECRET.search(org(*SEARCH).out)
    assert org.json("privacy", "requests")[0]["status"] == "dismissed"
    assert org("privacy", "apply", request["id"]).code == 0
    assert not SECRET.search(org(*SEARCH).out)
    org.refused(1, "no privacy request", "privacy", "dismiss", "0000")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        # The other two load the model.
        ("context", "general", "--at", "2"),
        ("search", "village account", "--room", "general"),
        ("ask", "village account", "--room", "general"),
    ],
)
def test_an_operator_is_told_what_is_withheld_beside_the_result(
    org: CommandLine, words: tuple[str, ...]
) -> None:
    [request] = org.json("privacy", "requests")
    done = org("--text", *words)

    assert done.code == 0
    assert f"roomlore privacy requests lists it as {request['id'][-8:]}" in done.err
    assert "restricted_messages" not in done.out
    assert "request" not in done.out
    assert not SECRET.search(done.out)
    assert {one["request_id"] for one in org.json(*words)["restrictions"]} == {request["id"]}
    assert "restricted_messages" not in org("--text", "--as", "bo", *words).err


@pytest.mark.slow
def test_an_org_detects_no_requests_or_only_proposes_them(org: CommandLine) -> None:
    assert org.json("privacy", "mode") == {"mode": "on"}
    assert org.json("privacy", "mode", "off") == {"mode": "off"}
    assert SECRET.search(org(*SEARCH).out)
    assert "propose: requests are proposed" in org.text("privacy", "mode", "propose")
    assert not SECRET.search(org(*SEARCH).out)
    org.refused(1, "not allowed", "--as", "ana", "privacy", "mode", "off")
