"""How a context looks on the command line."""

import json

from context.rooms import OPERATOR, answer, say
from roomlore.cli.output import Output
from roomlore.context.builder import build, with_articles
from roomlore.context.sources import ListSource
from roomlore.domain.ports import FetchFailure


class Closed:
    """A reader to whom nothing opens."""

    async def read(self, url):
        return FetchFailure(url=url, reason="the server said 404")


async def printed(capsys, *messages, edges=(), as_json=False, explain=True):
    built = await build(ListSource(messages, edges), messages[-1], viewer=OPERATOR)
    Output.to_streams(as_json=as_json, quiet=True).context(
        await with_articles(built, Closed()), explain=explain
    )
    return capsys.readouterr().out


TALK = (say(0), say(1), say(2, body="see https://gone.example/"))


async def test_what_was_only_said_around_it_is_explained_above_the_lines(capsys):
    told = await printed(capsys, *TALK, edges=[answer(2, 0, 0.7)], explain=False)
    heading, *lines = told.splitlines()
    assert "(room)" in heading
    assert lines == [
        "#m1 2026-03-02 09:00 [P1]: text 0",
        "#m2 09:01 (room) [P1]: text 1",
        "#m3 09:02 [P1]: see https://gone.example/",
    ]
    alone = await printed(capsys, TALK[2], explain=False)
    assert "(room)" not in alone


async def test_the_explanation_tells_part_rule_reply_and_links_not_shown(capsys):
    told = (await printed(capsys, *TALK, edges=[answer(2, 0, 0.7)])).splitlines()
    assert [" ".join(line.split()) for line in told[-4:]] == [
        "m1 conversation reply 13 tokens answered by #m3, found (70% sure)",
        "m2 room recent 12 tokens among the most recent before the trigger",
        "m3 conversation trigger 15 tokens the trigger",
        "m3 link not fetched: the server said 404 https://gone.example/",
    ]


async def test_a_program_gets_the_note_and_every_reason(capsys):
    document = json.loads(await printed(capsys, *TALK, edges=[answer(2, 0, 0.7)], as_json=True))
    assert "(room)" in document["note"]
    assert [(told["part"], told["method"]) for told in document["explain"]] == [
        ("conversation", "inferred"),
        ("room", None),
        ("conversation", None),
    ]
    assert document["unread_links"] == [
        {"label": "m3", "url": "https://gone.example/", "reason": "the server said 404"}
    ]
    brief = json.loads(await printed(capsys, *TALK, as_json=True, explain=False))
    assert {"explain", "boundaries", "unread"}.isdisjoint(brief)
