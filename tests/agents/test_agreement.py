"""Agents cannot confirm one another: not one the other, not through a third, not in a human's words."""

from datetime import UTC, datetime, timedelta

import pytest

from ingest.stories import author, message
from roomlore.operations import App

ANA, BO = author("ana"), author("bo")
PIP, POP, QUIP = (author(name, kind="agent") for name in ("pip", "pop", "quip"))
NOON = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)
CLAIM = "The wheel squeaks when it is wet."


def said(number: int, who, body: str, **fields):
    return message(f"m{number}", body, author=who, sent_at=NOON + timedelta(minutes=number), **fields)


async def tell(app: App, *lines) -> App:
    accepted = await app.ingest_batch(lines)
    assert accepted.skipped == []
    await app.drain()
    return app


async def met(app: App, agent: str) -> dict:
    return {one.name: one for one in await app.agents.relationships(app.operator, agent)}


async def asserts(app: App, name: str, *sources: str):
    acting = app.impersonate(await app.viewer(name))
    return await acting.memories.remember(CLAIM, kind="fact", about=["ana"], sources=sources)


# Trust


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "lines",
    [
        [(QUIP, "agreed", "m1")],
        [(QUIP, "agreed", "m1"), (PIP, "exactly", "m3"), (POP, "that's right", "m4")],
        [(QUIP, "Ana said: agreed, Pop is right", "m1")],
        [(QUIP, "> agreed\nexactly what Ana said", "m1")],
        [(BO, "agreed", None), (QUIP, "agreed, as Bo says", "m1")],
    ],
    ids=["one", "in a circle", "in a human's words", "by a quotation", "after a human who spoke to all"],
)
async def test_agents_do_not_confirm_each_other(app, lines):
    start = [said(1, POP, "the wheel squeaks"), said(2, PIP, "noted", reply_to="m1")]
    told = [said(number, who, body, reply_to=to) for number, (who, body, to) in enumerate(lines, start=3)]
    await tell(app, *start, *told)
    for agent in ("pip", "pop", "quip"):
        for name, one in (await met(app, agent)).items():
            if name in {"Pip", "Pop", "Quip"}:
                assert (one.confirmed, one.trust) == (0, 0.3), (agent, name)


async def test_a_human_confirms_an_agent(app):
    await tell(
        app,
        said(1, POP, "the wheel squeaks"),
        said(2, PIP, "noted", reply_to="m1"),
        said(3, ANA, "agreed", reply_to="m1"),
    )
    pop = (await met(app, "pip"))["Pop"]
    assert pop.confirmed == 1
    assert pop.trust > 0.3


async def test_agents_do_not_correct_humans(app):
    await tell(
        app,
        said(1, ANA, "the wheel squeaks"),
        said(2, PIP, "noted", reply_to="m1"),
        said(3, QUIP, "no, that's wrong: it hums", reply_to="m1"),
    )
    assert (await met(app, "pip"))["Ana"].corrected == 0


# What is remembered


@pytest.fixture
async def claimed(app: App) -> App:
    return await tell(
        app,
        said(1, POP, CLAIM),
        said(2, QUIP, "The wheel squeaks when it is wet."),
        said(3, PIP, "the wheel squeaks when it is wet"),
        said(4, ANA, "I doubt that the wheel squeaks when it is wet."),
        said(5, BO, "The wheel squeaks when it is wet?"),
        said(6, BO, "> The wheel squeaks when it is wet.\nwho says so?"),
        said(7, BO, "Pop wrote: \u201cOh. The wheel squeaks when it is wet. Bye.\u201d"),
        said(8, ANA, "Yes. The wheel squeaks when it is wet. I heard it."),
    )


async def test_an_agents_claim_has_half_the_confidence(claimed):
    assert (await asserts(claimed, "pop", "m1")).confidence == 0.5
    own = claimed.impersonate(await claimed.viewer("pop"))
    assert (await own.memories.remember("Pop hums.", about=["pop"], sources=["m1"])).confidence == 1


@pytest.mark.parametrize(
    "others",
    [
        [("quip", "m2")],
        [("quip", "m2"), ("pip", "m3"), ("pop", "m3"), ("quip", "m1")],
        [("quip", "m4")],
        [("quip", "m5")],
        [("quip", "m6")],
        [("quip", "m7")],
        [("pop", "m4"), ("pop", "m5"), ("pop", "m6"), ("pop", "m7")],
    ],
    ids=["one", "all", "a doubt", "a question", "a quotation", "a report", "all of these by itself"],
)
async def test_repeated_claims_of_agents_gain_no_confidence(claimed, others):
    first = await asserts(claimed, "pop", "m1")
    for name, source in others:
        # Another's experience would be another memory: as the operator has it, it is the org's.
        again = await asserts(claimed, name, source)
        assert again.confidence <= first.confidence
        authors = {person.name for person in again.participants if person.role == "author"}
        assert authors & {"Ana", "Bo"} == set()


async def test_a_human_source_raises_confidence(claimed):
    first = await asserts(claimed, "pop", "m1")
    again = await asserts(claimed, "pop", "m8")
    assert (again.id, {"Ana"} <= {one.name for one in again.participants}) == (first.id, True)
    assert again.confidence > first.confidence
