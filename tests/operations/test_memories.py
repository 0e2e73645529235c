"""What is remembered, by whom it may be recalled, and what it leads back to."""

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from ingest.stories import at, author, message, room
from operations.village import ATTIC, EVE, say, village
from roomlore.db import memories
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import Viewer
from roomlore.operations import App

ANA, BO, CY, DEE = author("ana"), author("bo"), author("cy"), author("dee")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
EVERYBODY = ("ana", "bo", "cy", "dee", "pip", "pop")
TABLES = ("memories", "memory_sources", "memory_participants")


def closed(name, *stays):
    """A room for members: each an author, or an author with the minutes of joining and leaving."""
    full = [stay if isinstance(stay, tuple) else (stay, 0, None) for stay in stays]
    members = tuple(
        IncomingMembership(author=who, joined_at=at(since), left_at=None if until is None else at(until))
        for who, since, until in full
    )
    return room(name, visibility="members", members=members)


async def tell(app, *told):
    accepted = await app.ingest_batch(told)
    assert accepted.skipped == []


async def greetings(app):
    """An org in which everybody has said something in the open."""
    await tell(
        app, *(message(f"hi-{who.account_id}", "hello", author=who) for who in (ANA, BO, CY, DEE, PIP, POP))
    )


@pytest.fixture
async def told(app, tell_once):
    await tell_once(app, greetings)
    return app


async def acting(app, name):
    return app.impersonate(await app.viewer(name))


async def recalls(app, viewer, memory) -> bool:
    """Whether the viewer is shown a memory, by listing as by asking why."""
    listed = memory.id in {one.id for one in await app.memories.all(viewer)}
    try:
        provenance = await app.memories.provenance(viewer, str(memory.id))
    except NotFound:
        assert not listed
        return False
    assert listed
    assert [source.message.id for source in provenance.sources] == list(memory.source_ids)
    return True


async def who_recalls(app, memory) -> set[str]:
    assert await recalls(app, app.operator, memory)
    return {name for name in EVERYBODY if await recalls(app, await app.viewer(name), memory)}


async def rows(admin, app) -> int:
    """How many rows there are of memories, their sources and participants."""
    counts = [
        await (
            await admin.execute(f"select count(*) from {table} where org_id = %s", [app.org_id])
        ).fetchone()
        for table in TABLES
    ]
    return sum(count for (count,) in counts)


def roles(memory) -> set[tuple[str, str]]:
    return {(person.role, person.name) for person in memory.participants}


@asynccontextmanager
async def held_up(admin, lock, subject):
    """Hold a lock that writers take; give a function that waits until so many of them wait for it."""
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"

    async def all_wait(writers=1) -> None:
        async with asyncio.timeout(120):
            while (await (await admin.execute(waiting)).fetchone()) != (writers,):  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.01)

    named = "advisory_{}lock(hashtextextended(%s || ' ' || %s::text, 0))"
    await admin.execute("select pg_" + named.format(""), [lock, subject])
    yield all_wait
    await admin.execute("select pg_" + named.format("un"), [lock, subject])


# Who may recall it


async def test_a_memory_of_what_was_said_in_the_open_is_for_the_whole_org(told):
    memory = await told.memories.remember("Ana says hello.", sources=["hi-ana"])

    assert await who_recalls(told, memory) == set(EVERYBODY)


async def test_a_memory_with_a_whisper_among_its_sources_is_for_the_whisper_s_author_and_audience(told):
    await tell(told, message("psst", "for Bo", kind="whisper", author=ANA, audience=[BO]))

    memory = await told.memories.remember("Ana told Bo.", sources=["hi-cy", "psst"])

    assert await who_recalls(told, memory) == {"ana", "bo"}


async def test_a_memory_of_two_closed_rooms_is_for_those_who_were_in_both_at_the_times(told):
    red = closed("red", ANA, BO, CY, (PIP, 0, 6), DEE)
    blue = closed("blue", ANA, (BO, 0, 7), (CY, 9, None), PIP)
    await tell(
        told,
        message("r", "in red", room=red, author=ANA, sent_at=at(5)),
        message("b", "in blue", room=blue, author=ANA, sent_at=at(8)),
    )

    memory = await told.memories.remember("Both.", sources=["r", "b"])

    assert await who_recalls(told, memory) == {"ana", "pip"}


async def test_a_sensitive_memory_of_an_open_room_is_for_those_who_were_members_then(told):
    square = room(
        "square",
        members=(
            IncomingMembership(author=BO, joined_at=at(0)),
            IncomingMembership(author=CY, joined_at=at(0), left_at=at(3)),
            IncomingMembership(author=DEE, joined_at=at(7)),
        ),
    )
    await tell(told, message("s", "delicate", room=square, author=ANA, sent_at=at(5)))

    open_to_all = await told.memories.remember("Delicate.", sources=["s"])
    sensitive = await told.memories.remember("Delicate.", sources=["s"], sensitive=True)

    assert await who_recalls(told, open_to_all) == set(EVERYBODY)
    assert await who_recalls(told, sensitive) == {"ana", "bo"}
    assert sensitive.sensitivity == "sensitive"


async def test_what_is_asserted_without_sources_is_for_whoever_asserted_it(told):
    own = await (await acting(told, "pip")).memories.remember("I like lists.")
    operators = await told.memories.remember("The org is young.", audience="self")

    assert await who_recalls(told, own) == {"pip"}
    assert await who_recalls(told, operators) == set()


async def test_what_an_operator_asserts_is_for_the_org_and_says_so(told):
    kept = await told.memories.remember("The org is young.")
    assert await who_recalls(told, kept) == set(EVERYBODY)
    corrected = await told.memories.correct(str(kept.id), "The org is old.")
    assert await who_recalls(told, corrected) == set(EVERYBODY)
    assert (kept.audience, corrected.audience) == ("org", "org")
    assert (await told.memories.remember("A secret.", audience="self")).audience == "self"


async def test_what_is_for_the_org_is_for_nobody_who_is_not_in_it(told):
    kept = await told.memories.remember("The org is young.")
    stranger = Viewer(org_id=told.org_id, participant_id=ParticipantId(uuid4()))

    async with told.db.read_transaction(stranger) as conn:
        assert await memories.memories_by_id(conn, told.org_id, [kept.id]) == []


async def test_a_statement_without_a_message_carries_who_stated_it_when_and_what_else_it_came_with(told):
    when = at(5)
    kept = await told.memories.remember(
        "Boats leave at nine.", by="ana", occurred_at=when, metadata={"ticket": 12, "from": ["a", None]}
    )

    assert roles(kept) == {("author", "Ana")}
    assert (kept.valid_from, kept.metadata) == (when, {"ticket": 12, "from": ["a", None]})
    assert [one.id for one in await told.memories.all(told.operator, since=when)] == [kept.id]
    again = await told.memories.remember("Boats leave at nine!", by="ana", metadata={"ticket": 13, "more": 1})
    assert (again.id, again.metadata) == (kept.id, {"ticket": 12, "from": ["a", None], "more": 1})
    assert await told.memories.all(told.operator, statuses=["deprecated"]) == []
    old = await told.memories.correct(str(kept.id), "Boats leave at ten.")
    assert old.metadata == again.metadata
    assert [one.id for one in await told.memories.all(told.operator, statuses=["deprecated"])] == [kept.id]


@pytest.mark.parametrize(
    "given",
    [{"audience": "org"}, {"by": "ana"}],
    ids=lambda given: next(iter(given)),
)
async def test_only_an_operator_speaks_for_all_or_for_another(told, admin, given):
    before = await rows(admin, told)
    with pytest.raises(NotAllowed, match="only an operator"):
        await (await acting(told, "pip")).memories.remember("I like lists.", **given)
    assert await rows(admin, told) == before


async def test_the_other_account_of_a_person_recalls_what_one_asserted_until_they_are_split(told):
    memory = await (await acting(told, "pip")).memories.remember("I like lists.")
    pop = str((await told.viewer("pop")).participant_id)

    await told.people.merge("pip", "pop")
    assert await recalls(told, await told.viewer(pop), memory)
    assert not await recalls(told, await told.viewer("ana"), memory)

    await told.people.split("pip")
    assert await who_recalls(told, memory) == {"pip"}


async def test_both_accounts_of_a_person_recall_what_each_may_read_a_part_of(told):
    await tell(
        told,
        message("r", "in red", room=closed("red", PIP, ANA), author=ANA),
        message("b", "in blue", room=closed("blue", POP, BO), author=BO),
    )
    memory = await told.memories.remember("Both.", sources=["r", "b"])
    assert await who_recalls(told, memory) == set()

    pip = (await told.viewer("pip")).participant_id
    pop = (await told.viewer("pop")).participant_id
    await told.people.merge("pip", "pop")

    assert await recalls(told, await told.viewer(str(pip)), memory)
    assert await recalls(told, await told.viewer(str(pop)), memory)


async def test_no_other_org_recalls_it(told, open_app):
    memory = await told.memories.remember("Ours.")
    other = await open_app("other")

    assert await other.memories.all(other.operator) == []
    with pytest.raises(NotFound):
        await other.memories.provenance(other.operator, str(memory.id))


# What may not be seen is not there


async def test_a_memory_that_may_not_be_seen_and_one_that_is_missing_get_the_same_answer(told):
    memory = await told.memories.remember("The operator's own.", audience="self")
    cy, missing = await told.viewer("cy"), str(uuid4())

    with pytest.raises(NotFound) as hidden:
        await told.memories.provenance(cy, str(memory.id))
    with pytest.raises(NotFound) as nothing:
        await told.memories.provenance(cy, missing)

    assert str(hidden.value).replace(str(memory.id), missing) == str(nothing.value)


@pytest.mark.parametrize("word", ["", "\0", "\ud800", "zzzz", "----", "abc", "0" * 33, "'; select", "last"])
async def test_what_is_no_id_means_no_memory(told, word):
    await told.memories.remember("Something.")

    with pytest.raises(NotFound):
        await told.memories.provenance(told.operator, word)


async def test_the_beginning_of_an_id_means_a_memory_while_it_means_only_one(told):
    first = await told.memories.remember("One.")
    assert (await told.memories.provenance(told.operator, str(first.id)[:9])).memory == first

    second = await told.memories.remember("Two.")
    common = "".join(
        one
        for place, one in enumerate(str(first.id))
        if str(second.id).startswith(str(first.id)[: place + 1])
    )
    with pytest.raises(BadInput, match=str(second.id)):
        await told.memories.provenance(told.operator, common)


@pytest.mark.parametrize(
    ("hidden", "missing"),
    [
        ({"sources": ["secret"]}, {"sources": ["nothing"]}),
        ({"room": "red"}, {"room": "blue"}),
        ({"about": ["eve"]}, {"about": ["zoe"]}),
        ({"about": ["Ana The Great"]}, {"about": ["Ana The Small"]}),
    ],
    ids=["source", "room", "participant", "a name unheard of"],
)
async def test_what_the_caller_may_not_see_is_missing_to_it(told, admin, hidden, missing):
    red = closed("red", ANA)
    eve, great = author("eve"), author("ana", name="Ana The Great")
    await tell(
        told,
        message("secret", "of red", room=red, author=great, sent_at=at(60)),
        message("more", "of red", room=red, author=eve, sent_at=at(61)),
    )
    pip = await acting(told, "pip")
    before = await rows(admin, told)

    def text(refused, given) -> str:
        (word,) = given.get("sources") or given.get("about") or [given["room"]]
        return str(refused.value).replace(word, "it")

    with pytest.raises(NotFound) as unseen:
        await pip.memories.remember("A guess.", **hidden)
    with pytest.raises(NotFound) as nothing:
        await pip.memories.remember("A guess.", **missing)

    assert text(unseen, hidden) == text(nothing, missing)
    assert await rows(admin, told) == before
    # It is there for those who may see it.
    assert await told.memories.remember("A guess.", **hidden)


async def test_participants_whom_the_viewer_may_not_know_do_not_show(app):
    fay = author("fay")
    await tell(
        app,
        message("open", "by Ana", author=ANA),
        message("cy", "by Cy", author=CY),
        message("red", "by Fay", room=closed("red", PIP, fay), author=fay),
    )
    pip = await acting(app, "pip")

    memory = await pip.memories.remember("Ana and Fay agree.", sources=["open"], about=["fay"])

    of_pip = {("author", "Pip"), ("perspective", "Pip")}
    assert roles(memory) == of_pip | {("involved", "Ana"), ("subject", "Fay")}
    (seen,) = await app.memories.all(await app.viewer("cy"))
    assert roles(seen) == {("involved", "Ana")}
    assert seen.asserted_by is None
    async with app.db.read_transaction(await app.viewer("cy")) as conn:
        rows = await conn.execute("select role from memory_participants")
        assert await rows.fetchall() == [("involved",)]
    (whole,) = await app.memories.all(app.operator)
    assert whole == memory
    with pytest.raises(NotFound):
        await app.memories.all(await app.viewer("cy"), about="fay")


async def test_participants_are_called_as_the_viewer_knows_them(told):
    great = author("ana", name="Ana The Great")
    await tell(told, message("r", "in red", room=closed("red", ANA, PIP), author=great, sent_at=at(60)))
    memory = await told.memories.remember("Ana says hello.", sources=["hi-ana"])

    async def called(name):
        viewer = told.operator if name is None else await told.viewer(name)
        return roles((await told.memories.provenance(viewer, str(memory.id))).memory)

    assert await called(None) == {("involved", "Ana The Great")}
    assert await called("pip") == {("involved", "Ana The Great")}
    assert await called("cy") == {("involved", "Ana")}


# Who may assert it


@pytest.mark.parametrize("way", ["named by the operator", "by key"])
async def test_a_member_may_not_remember(told, admin, way):
    if way == "by key":
        member = await told.sign_in((await told.keys.create("member", name="phone", participant="bo")).key)
    else:
        member = await acting(told, "bo")

    with pytest.raises(NotAllowed) as existing:
        await member.memories.remember("Mine.", sources=["hi-bo"])
    with pytest.raises(NotAllowed) as missing:
        await member.memories.remember("Mine.", sources=["nothing"])

    assert str(existing.value) == str(missing.value)
    assert await rows(admin, told) == 0
    assert await member.memories.all(member.access.principal) == []


async def test_an_agent_that_was_erased_remembers_nothing(told, admin):
    pip = await acting(told, "pip")
    await told.erasure.person("pip")

    with pytest.raises(NotFound):
        await pip.memories.remember("I like lists.")

    assert await rows(admin, told) == 0


async def test_an_agent_s_key_remembers_as_the_agent_and_reads_as_it_alone(told):
    pip = await told.sign_in((await told.keys.create("agent", name="pip", participant="pip")).key)

    memory = await pip.memories.remember("Ana is kind.", sources=["hi-ana"])

    assert memory.asserted_by == pip.access.principal.participant_id
    assert [one.id for one in await pip.memories.all(pip.access.principal)] == [memory.id]
    for viewer in (told.operator, await told.viewer("ana")):
        with pytest.raises(NotAllowed):
            await pip.memories.all(viewer)
        with pytest.raises(NotAllowed):
            await pip.memories.provenance(viewer, str(memory.id))


# What it says of whom


BOTH = {("involved", "Ana"), ("involved", "Bo")}
BY_PIP = {("author", "Pip"), ("perspective", "Pip")}


@pytest.mark.parametrize(
    ("asserter", "content", "sources", "expected"),
    [
        ("pip", "Hello!", ["hi-ana"], {("author", "Ana"), ("perspective", "Pip")}),
        ("pip", "Ana greets.", ["hi-ana"], {*BY_PIP, ("involved", "Ana")}),
        (None, "Ana greets.", ["hi-ana"], {("involved", "Ana")}),
        ("pip", "They greet.", ["hi-ana", "hi-bo"], BOTH | BY_PIP),
        (None, "They greet.", ["hi-ana", "hi-bo"], BOTH),
        ("pip", "Pinned.", ["notice", "injected"], BY_PIP),
    ],
)
async def test_the_author_is_quoted_and_others_are_involved(told, *, asserter, content, sources, expected):
    await tell(
        told,
        message("notice", "Ana pinned a message", kind="system", author=ANA),
        message("injected", "be brief", kind="context_injection", author=BO, audience=[PIP]),
    )
    app = told if asserter is None else await acting(told, asserter)

    memory = await app.memories.remember(content, sources=sources, about=["cy"])

    assert roles(memory) == {*expected, ("subject", "Cy")}
    assert memory.asserted_by == app.access.principal.participant_id


async def test_memories_about_somebody_are_found_by_any_of_their_accounts(told):
    about_ana = await told.memories.remember("Ana is kind.", about=["ana"])
    await told.memories.remember("Bo is tall.", about=["bo"])
    await told.memories.remember("Ana spoke.", sources=["hi-ana"])
    assert await told.memories.all(told.operator, about="ana") == [about_ana]

    await told.people.merge("ana", "cy")

    assert await told.memories.all(told.operator, about="cy") == [about_ana]
    assert await told.memories.all(told.operator, about="dee") == []
    with pytest.raises(NotFound):
        await told.memories.all(told.operator, about="zoe")


# What is kept


async def test_memories_come_newest_first_and_as_many_as_wanted(told):
    kept = [await told.memories.remember(f"Fact {number}.") for number in range(4)]

    assert await told.memories.all(told.operator) == kept[::-1]
    assert await told.memories.all(told.operator, limit=2) == kept[:1:-1]
    with pytest.raises(BadInput):
        await told.memories.all(told.operator, limit=0)


async def test_what_is_returned_is_what_is_kept(told):
    memory = await told.memories.remember(
        "  Ana decides.\n", kind="process_decision", sources=["hi-bo", "hi-ana", "hi-bo"], about=["ana"]
    )

    assert await told.memories.all(told.operator) == [memory]
    assert memory.content == "Ana decides."
    assert memory.kind == "process_decision"
    assert len(memory.source_ids) == 2


async def test_a_source_is_meant_by_its_id_or_in_its_room_or_as_the_last(told):
    for name in ("red", "blue"):
        await tell(told, message("1", f"in {name}", room=room(name)), message("2", "later", room=room(name)))
    (one, last) = await told.messages(told.operator, "red")

    by_room = await told.memories.remember("A.", sources=["1", "last"], room="red")
    by_id = await told.memories.remember("B.", sources=[str(last.id)])

    assert list(by_room.source_ids) == [one.id, last.id]
    assert list(by_id.source_ids) == [last.id]
    with pytest.raises(BadInput, match="several are meant"):
        await told.memories.remember("C.", sources=["1"])


async def test_provenance_names_the_room_of_each_source_where_the_viewer_may_see_it(told):
    red = closed("red", ANA)
    await tell(
        told, message("psst", "for Bo", kind="whisper", room=red, author=ANA, audience=[BO], sent_at=at(60))
    )
    memory = await told.memories.remember("Ana told Bo.", sources=["psst", "hi-ana"])

    async def sources(viewer):
        provenance = await told.memories.provenance(viewer, str(memory.id))
        return [(source.message.external_id, source.room_name) for source in provenance.sources]

    assert await sources(await told.viewer("ana")) == [("hi-ana", "general"), ("psst", "red")]
    assert await sources(await told.viewer("bo")) == [("hi-ana", "general"), ("psst", None)]


async def test_secrets_and_what_cannot_be_stored_do_not_come_in(told):
    memory = await told.memories.remember("The key\0 is ghp_0123456789abcdefghijklmnopqrstuvwxyz \ud800.")

    assert "ghp_" not in memory.content
    assert "[secret removed]" in memory.content
    assert await told.memories.all(told.operator) == [memory]


@pytest.mark.parametrize(
    "given",
    [
        {"content": ""},
        {"content": " \n\t"},
        {"content": "x" * 10_001},
        {"kind": "rumour"},
        {"sources": ["hi-ana"] * 101},
        {"about": ["ana"] * 101},
        {"sources": ["gone"]},
        {"sources": ["hi-ana", "gone"]},
        {"audience": "everybody"},
        {"audience": "self", "sources": ["hi-ana"]},
        {"by": "ana", "sources": ["hi-ana"]},
        {"sensitive": True},
        {"occurred_at": datetime(2024, 1, 1)},  # noqa: DTZ001  the fault
        {"occurred_at": datetime(9999, 1, 1, tzinfo=UTC)},
        {"metadata": {"long": "x" * 10_001}},
    ],
    ids=[
        *("empty", "blank", "long", "kind", "many sources", "many subjects", "redacted", "one redacted"),
        *("unknown audience", "audience of sources", "author of sources", "sensitive to nobody"),
        *("no zone", "future", "much metadata"),
    ],
)
async def test_what_cannot_be_kept_is_refused_and_leaves_nothing(told, admin, given):
    await tell(told, message("gone", "", deleted=True))

    with pytest.raises(BadInput):
        await told.memories.remember(**({"content": "Something."} | given))

    assert await rows(admin, told) == 0


async def test_one_missing_source_leaves_nothing(told, admin):
    with pytest.raises(NotFound):
        await told.memories.remember("Half.", sources=["hi-ana", "nothing"], about=["bo"])

    assert await rows(admin, told) == 0


@pytest.mark.parametrize("sources", [[], ["hi-ana", "hi-bo"]], ids=["asserted", "with sources"])
async def test_the_same_memory_is_kept_once_however_often_it_is_stated_at_once(told, admin, sources):
    pip = await acting(told, "pip")

    async with held_up(admin, "erasure", told.org_id) as all_wait:
        stated = [
            asyncio.create_task(pip.memories.remember("They greet.", sources=sources, about=["cy"]))
            for _ in range(6)
        ]
        await all_wait(6)
    kept = await asyncio.gather(*stated)

    assert len({memory.id for memory in kept}) == 1
    assert len({memory.recorded_at for memory in kept}) == 1
    assert len(await told.memories.all(told.operator)) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "other",
    [
        {"content": "Ana greeted."},
        {"sources": []},
        {"about": []},
        {"sensitive": True},
        {"by": "pop"},
        {"by": None},
    ],
    ids=lambda other: " ".join(f"{name} {value}" for name, value in other.items()),
)
async def test_a_memory_that_differs_is_another_one(told, other):
    async def remember(given):
        by = given.pop("by")
        app = told if by is None else await acting(told, by)
        return await app.memories.remember(**given)

    given = {"by": "pip", "content": "Ana greets.", "sources": ["hi-ana"], "about": ["bo"]}
    first, second = await remember(dict(given)), await remember(given | other)

    assert first.id != second.id
    assert len(await told.memories.all(told.operator)) == 2


async def test_a_memory_is_outdated_once_a_source_says_something_else(told):
    soon = datetime.now(UTC) + timedelta(hours=1)
    memory = await told.memories.remember("Ana says hello.", sources=["hi-ana", "hi-bo"])
    assert not memory.is_outdated

    await tell(told, message("hi-ana", "goodbye", author=ANA, edited_at=soon))

    assert (await told.memories.provenance(await told.viewer("cy"), str(memory.id))).memory.is_outdated
    assert (await told.memories.remember("Ana says hello.", sources=["hi-ana", "hi-bo"])).is_outdated
    fresh = await told.memories.remember("Ana says goodbye.", sources=["hi-ana"])
    assert [one.is_outdated for one in await told.memories.all(told.operator)] == [False, True]
    assert not fresh.is_outdated
    assert fresh.recorded_at >= soon


@pytest.mark.parametrize("lock", ["erasure", "room"])
async def test_a_source_that_is_removed_while_it_is_remembered_leaves_nothing(told, admin, lock):
    # As an erasure does, or a platform's word that a message is gone.
    (general,) = await told.rooms(told.operator)
    async with held_up(admin, lock, told.org_id if lock == "erasure" else general.id) as all_wait:
        task = asyncio.create_task(told.memories.remember("Ana says hello.", sources=["hi-ana"]))
        await all_wait()
        await admin.execute(
            "update messages set body = '', redacted_at = now() where org_id = %s and external_id = 'hi-ana'",
            [told.org_id],
        )

    with pytest.raises(BadInput, match="removed meanwhile"):
        await task
    assert await rows(admin, told) == 0


@pytest.mark.slow
async def test_memories_racing_with_the_removal_of_their_source_are_gone_with_it(told, admin):
    for number in range(8):
        await tell(told, message(f"r{number}", "fleeting", author=ANA))
        by_platform = message(f"r{number}", "", author=ANA, deleted=True)
        removal = tell(told, by_platform) if number % 2 else told.erasure.redact(f"r{number}")
        remembering = asyncio.create_task(told.memories.remember("Fleeting.", sources=[f"r{number}"]))
        await removal
        with suppress(BadInput):
            await remembering

    assert await rows(admin, told) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("removal", ["redaction", "deletion on the platform", "erasure", "person"])
async def test_a_memory_goes_with_any_of_its_sources(told, removal):
    await told.memories.remember("They greet.", sources=["hi-ana", "hi-bo"])
    stays = await told.memories.remember("Cy greets.", sources=["hi-cy"])

    match removal:
        case "redaction":
            await told.erasure.redact("hi-ana")
        case "deletion on the platform":
            await tell(told, message("hi-ana", "", author=ANA, deleted=True))
        case "erasure":
            await told.erasure.message("hi-ana")
        case _:
            await told.erasure.person("ana")

    assert await told.memories.all(told.operator) == [stays]
    with pytest.raises((BadInput, NotFound)):
        await told.memories.remember("They greet.", sources=["hi-ana"])


# What the log says


async def test_the_log_says_who_remembered_and_recalled_what_by_ids_alone(told, admin):
    pip = await told.sign_in((await told.keys.create("agent", name="pip", participant="pip")).key)
    memory = await pip.memories.remember("Quincunx.", sources=["hi-ana"], about=["bo"])
    await pip.memories.all(pip.access.principal, about="bo")
    await pip.memories.provenance(pip.access.principal, str(memory.id))
    with pytest.raises(NotFound):
        await pip.memories.provenance(pip.access.principal, "feedfacefeed")

    lines = await told.log(told.operator, subject=memory.id)
    assert {(line.action, line.outcome) for line in lines} == {
        ("remember", "done"),
        ("list memories", "done"),
        ("why", "done"),
    }
    assert {line.key_id for line in lines} == {pip.access.principal.key_id}
    assert {line.viewer_id for line in lines} == {pip.access.principal.participant_id}
    assert {UUID(str(memory.id)), *memory.source_ids} <= set(lines[-1].subject_ids)
    refused = [line for line in await told.log(told.operator) if line.outcome == "refused"]
    assert [line.action for line in refused] == ["why"]
    dumped = await (
        await admin.execute("select audit_log::text from audit_log where org_id = %s", [told.org_id])
    ).fetchall()
    assert not any("quincunx" in text.lower() or "feedface" in text for (text,) in dumped)


async def test_a_refused_remembering_leaves_a_line(told):
    bo = await acting(told, "bo")

    with pytest.raises(NotAllowed):
        await bo.memories.remember("Mine.")

    newest = (await told.log(told.operator))[0]
    assert (newest.action, newest.outcome) == ("remember", "refused")
    assert newest.viewer_id == bo.access.principal.participant_id


async def test_whom_one_knows_only_from_a_whisper_that_was_taken_back_no_memory_names(app: App):
    await village(app)
    hushed = {"kind": "whisper", "audience": (EVE,)}
    await app.ingest(say(20, DEE, ATTIC, body="my account is at the mill", **hushed))
    kept = await app.memories.remember("Dee likes tea", sources=["m2"], about=["dee"])
    eve = await app.viewer("eve")
    assert "Dee" in {one.name for one in (await app.memories.all(eve))[0].participants}

    await app.ingest(say(21, DEE, ATTIC, body="please forget that", **hushed))

    [shown] = [one for one in await app.memories.all(eve) if one.id == kept.id]
    assert "Dee" not in {one.name for one in shown.participants}
