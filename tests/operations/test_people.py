"""Participants who are accounts of one person: merged, read with one pair of eyes, and split again."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import OpenApp, TellOnce
from ingest.stories import author
from operations.village import (
    ANA,
    ANA_HOME,
    ATTIC,
    BO,
    PEOPLE,
    SQUARE,
    error_of,
    read_by,
    say,
    seen,
    village,
    whole_village,
)
from roomlore.context.render import to_openai
from roomlore.db import erasure_guard
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.operations import App


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, whole_village)
    return app


async def test_no_id_of_a_room_or_of_anybody_tells_when_they_first_came_up(told: App):
    await told.people.register("helper")
    people = [one.id for one in await told.participants(told.operator)]
    rooms = [one.id for one in await told.rooms(told.operator)]
    assert (len(people) > len(PEOPLE), len(rooms)) == (True, 3)
    assert {one.version for one in (*people, *rooms)} == {4}


async def test_a_merged_person_reads_what_either_account_may(told: App):
    apart = {name: await read_by(told, await told.viewer(name)) for name in ("ana", "ana_home")}

    await told.people.merge("ana", "ana_home")

    together = {name: await read_by(told, await told.viewer(name)) for name in ("ana", "ana_home")}
    assert apart["ana"] != apart["ana_home"]
    assert apart["ana"] - apart["ana_home"] >= {"m4", "m5", "m8", "m10"}
    assert apart["ana_home"] - apart["ana"] >= {"m6", "m7", "m9"}
    assert together["ana"] == together["ana_home"] == apart["ana"] | apart["ana_home"]


async def test_a_merge_gives_nobody_else_anything_and_tells_nothing(told: App):
    # Bo knows ana, Cy knows ana_home, Eve has met both nowhere.
    others = {name: await told.viewer(name) for name in ("bo", "cy", "eve", "pip")}
    before = {name: await seen(told, viewer) for name, viewer in others.items()}

    await told.people.merge("ana", "ana_home")

    assert {name: await seen(told, viewer) for name, viewer in others.items()} == before


async def test_whoever_knows_both_accounts_reads_no_more_but_sees_one_person(told: App):
    dee = await told.viewer("dee")
    before, people = await read_by(told, dee), await told.participants(dee)

    await told.people.merge("ana", "ana_home")

    merged = await told.participants(dee)
    assert await read_by(told, dee) == before
    assert len(merged) == len(people) - 1
    one = next(person for person in merged if len(person.accounts) > 1)
    parts = [person for person in people if person.id in one.accounts]
    assert [person.name for person in parts] == ["Ana", "Ana_Home"]
    assert one.id == min(one.accounts)
    assert one.name == "Ana_Home"  # said m6, after m4: the whisper m10 is not for Dee
    assert one.message_count == sum(person.message_count for person in parts) == 2
    assert one.first_seen_at == min(person.first_seen_at for person in parts)
    assert one.last_seen_at == max(person.last_seen_at for person in parts)


@pytest.mark.slow
async def test_a_split_gives_back_exactly_what_was(told: App, admin: psycopg.AsyncConnection):
    viewers = [told.operator, *[await told.viewer(name) for name in PEOPLE]]
    before, rows = [await seen(told, viewer) for viewer in viewers], await stored(admin, told)

    await told.people.merge("ana", "ana_home")
    merged = await stored(admin, told)
    await told.people.split("ana_home")

    assert [await seen(told, viewer) for viewer in viewers] == before
    assert await stored(admin, told) == rows
    assert {name for name in rows if merged[name] != rows[name]} == {"participant_merges"}


async def stored(admin: psycopg.AsyncConnection, app: App) -> dict[str, list[str]]:
    """Return every row of an org but the log."""
    names = "select table_name from information_schema.columns where table_schema = 'roomlore' and column_name = 'org_id'"
    tables = [name for (name,) in await (await admin.execute(names)).fetchall()]
    kept = [name for name in tables if name != "audit_log"]
    return {
        name: sorted(
            row[0]
            for row in await (
                await admin.execute(f"select t::text from {name} as t where org_id = %s", [app.org_id])
            ).fetchall()
        )
        for name in kept
    }


@pytest.mark.slow
async def test_three_accounts_merge_in_a_chain_and_part_in_the_middle(told: App):
    apart = {name: await read_by(told, await told.viewer(name)) for name in ("ana", "ana_home", "eve")}

    await told.people.merge("ana", "ana_home")
    whole = await told.people.merge("ana_home", "eve")
    union = apart["ana"] | apart["ana_home"] | apart["eve"]
    assert {account.account_id for account in whole} == {"ana", "ana_home", "eve"}
    assert all(account.is_merged for account in whole)
    for name in apart:
        assert await read_by(told, await told.viewer(name)) == union

    left = await told.people.split("ana_home")
    assert {account.account_id for account in left} == {"ana", "eve"}
    assert await read_by(told, await told.viewer("ana_home")) == apart["ana_home"]
    assert await read_by(told, await told.viewer("eve")) == apart["ana"] | apart["eve"]


async def test_the_last_two_part_without_a_trace(told: App, admin: psycopg.AsyncConnection):
    await told.people.merge("ana", "ana_home")
    await told.people.merge("ana", "eve")

    assert {account.account_id for account in await told.people.split("eve")} == {"ana", "ana_home"}
    assert [account.is_merged for account in await told.people.split("ana")] == [False]

    assert (await stored(admin, told))["participant_merges"] == []


@pytest.mark.parametrize(
    ("one", "other", "error", "text"),
    [
        ("bo", "cy", BadInput, "one person already"),
        ("cy", "bo", BadInput, "one person already"),
        ("ana", "ana", BadInput, "one person already"),
        ("ana", "pip", BadInput, "only one of them is an agent"),
        *(
            (one, "ana", NotFound, "no participant")
            for one in ("nobody", "", "01a2133c-577e-7e76-a2af-aed084b7c920")
        ),
        ("ana", "nobody", NotFound, "no participant"),
    ],
)
async def test_a_merge_that_makes_no_sense_is_refused(told: App, *, one, other, error, text):
    await told.people.merge("bo", "cy")
    with pytest.raises(error, match=text):
        await told.people.merge(one, other)
    with pytest.raises(BadInput, match="merged with nobody"):
        await told.people.split("ana")
    with pytest.raises(NotFound):
        await told.people.merge(str(told.org_id), "ana")


async def test_two_agents_merge_and_read_as_an_agent(told: App):
    await told.ingest(say(20, author("pop", kind="agent"), SQUARE))
    await told.ingest(say(21, BO, SQUARE, kind="context_injection"))

    await told.people.merge("pip", "pop")

    pop = await told.viewer("pop")
    assert pop.role == "agent"
    assert "m21" in await read_by(told, pop)


async def test_a_name_that_two_bear_merges_nobody_by_itself(app: App):
    first, second = author("u1", name="Sam"), author("u2", name="Sam")
    await app.ingest_batch([say(1, first, SQUARE), say(2, second, SQUARE)])

    assert [person.message_count for person in await app.participants(app.operator)] == [1, 1]
    for refused in (app.people.merge("Sam", "u1"), app.people.accounts(app.operator, "Sam")):
        with pytest.raises(BadInput, match="several are meant"):
            await refused

    await app.people.merge("u1", "u2")
    assert len(await app.people.accounts(app.operator, "Sam")) == 2
    with pytest.raises(BadInput, match="several are meant"):
        await app.people.split("Sam")


async def test_each_persona_of_one_account_is_its_own_author(app: App):
    news, rain = (author("hook", persona=name, name=name, bridged=True) for name in ("News", "Rain"))
    await app.ingest_batch([say(1, news, SQUARE), say(2, rain, SQUARE), say(3, news, SQUARE)])

    people = {person.name: person for person in await app.participants(app.operator)}
    accounts = await app.people.accounts(app.operator)

    assert {name: person.message_count for name, person in people.items()} == {"News": 2, "Rain": 1}
    assert {(one.account_id, one.persona, one.bridged, one.is_merged) for one in accounts} == {
        ("hook", "News", True, False),
        ("hook", "Rain", True, False),
    }
    # The account alone names nobody.
    with pytest.raises(NotFound):
        await app.people.accounts(app.operator, "hook")


async def test_another_name_is_no_other_person_and_rewrites_nothing(app: App):
    await app.ingest_batch(
        [say(1, author("u1", name="Ana"), SQUARE), say(2, author("u1", name="Ana B."), SQUARE)]
    )

    (person,) = await app.participants(app.operator)
    messages = await app.messages(app.operator, "square")

    assert (person.name, person.message_count) == ("Ana B.", 2)
    assert [said.author_name for said in messages] == ["Ana", "Ana B."]
    assert {said.author_id for said in messages} == {person.id}


async def test_what_either_account_said_is_the_viewers_own_in_a_context(told: App):
    await told.ingest_batch([say(20, ANA, SQUARE), say(21, ANA_HOME, SQUARE), say(22, BO, SQUARE)])

    async def roles() -> list[str]:
        built = await told.context(await told.viewer("ana"), "square")
        said = {
            line.message.external_id: turn["role"]
            for line, turn in zip(built.lines, to_openai(built), strict=True)
        }
        return [said[name] for name in ("m20", "m21", "m22")]

    assert await roles() == ["assistant", "user", "user"]
    await told.people.merge("ana", "ana_home")
    assert await roles() == ["assistant", "assistant", "user"]
    await told.people.split("ana")
    assert await roles() == ["assistant", "user", "user"]


@pytest.mark.slow
async def test_whoever_reads_during_a_merge_sees_all_of_it_or_nothing(told: App):
    ana, dee = await told.viewer("ana"), await told.viewer("dee")
    listed = {len(await told.participants(dee))}
    whole = [
        {
            said.external_id
            for hit in (await told.search(ana, "village", limit=50)).hits
            for said in hit.messages
        }
    ]
    await told.people.merge("ana", "ana_home")
    listed |= {len(await told.participants(dee))}
    whole += [
        {
            said.external_id
            for hit in (await told.search(ana, "village", limit=50)).hits
            for said in hit.messages
        }
    ]
    done = asyncio.Event()

    async def change() -> None:
        for _ in range(15):
            await told.people.split("ana_home")
            await told.people.merge("ana_home", "ana")
        done.set()

    async def look() -> list[bool]:
        fits: list[bool] = []
        while not done.is_set() or len(fits) < 12:
            found = (await told.search(ana, "village", limit=50)).hits
            fits.append({said.external_id for hit in found for said in hit.messages} in whole)
            fits.append(len(await told.participants(dee)) in listed)
        return fits

    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(look()) for _ in range(3)]
        group.create_task(change())

    fits = [fit for looked in looks for fit in looked.result()]
    assert len(listed) == 2
    assert all(fits)


@pytest.mark.slow
async def test_merges_side_by_side_end_as_if_one_had_come_after_the_other(told: App):
    pairs = [("ana", "bo"), ("bo", "cy"), ("cy", "dee"), ("dee", "eve"), ("eve", "ana_home")]

    for _ in range(3):
        await many_connections(told)
        await asyncio.gather(*(told.people.merge(*pair) for pair in pairs))

        assert len(await told.people.accounts(told.operator, "ana")) == 6
        for one, _ in pairs:
            await told.people.split(one)


@pytest.mark.parametrize(
    "change",
    [
        lambda app: app.people.merge("ana", "ana_home"),
        lambda app: app.people.split("cy"),
        lambda app: app.keys.create("member", name="phone", participant="ana"),
    ],
    ids=["merge", "split", "key"],
)
async def test_what_an_erasure_would_remove_is_not_added_while_it_is_under_way(
    told: App, admin: psycopg.AsyncConnection, change: Callable[[App], Coroutine[Any, Any, Any]]
):
    await told.people.merge("bo", "cy")
    held, release = asyncio.Event(), asyncio.Event()

    async def erase(conn: Connection) -> None:
        await erasure_guard.lock_exclusive(conn, told.org_id)
        held.set()
        await release.wait()

    erasing = asyncio.create_task(told.db.change(told.org_id, erase))
    await held.wait()
    changing = asyncio.create_task(change(told))
    while not (changing.done() or await somebody_waits(admin)):
        pass

    assert not changing.done()
    release.set()
    await asyncio.gather(erasing, changing)


async def somebody_waits(admin: psycopg.AsyncConnection) -> bool:
    """Return whether a lock that is held by somebody else is asked for."""
    found = await admin.execute(
        "select exists (select 1 from pg_locks where locktype = 'advisory' and not granted)"
    )
    return bool((await found.fetchone())[0])


async def many_connections(app: App) -> None:
    """Let the pool grow, so that what is done side by side does not wait for connections instead."""
    waiting = asyncio.Barrier(6)

    async def hold() -> None:
        async with app.db.read_transaction(app.operator):
            await waiting.wait()

    await asyncio.gather(*(hold() for _ in range(6)))


@pytest.mark.slow
async def test_a_merge_and_a_key_beside_an_erasure_come_before_it_or_find_nobody(open_app: OpenApp):
    for attempt in range(6):
        app = await village(await open_app(f"erased{attempt}"))
        acts = [
            app.people.merge("ana", "ana_home"),
            app.keys.create("member", name="phone", participant="ana"),
            app.erasure.person("ana"),
        ]
        first = attempt % len(acts)
        await many_connections(app)

        outcomes = await asyncio.gather(*acts[first:], *acts[:first], return_exceptions=True)

        for outcome in outcomes:
            assert isinstance(outcome, NotFound) or not isinstance(outcome, BaseException), outcome
        left = {account.account_id for account in await app.people.accounts(app.operator)}
        assert "ana" not in left
        assert await app.keys.all() == []


# What is listed


async def test_the_operator_sees_a_person_once_under_the_newest_name(told: App):
    await told.people.merge("ana", "ana_home")

    (one,) = [person for person in await told.participants(told.operator) if len(person.accounts) > 1]

    assert (one.name, one.kind, one.message_count) == ("Ana", "human", 3)  # m10 is the newest
    assert {account.participant_id for account in await told.people.accounts(told.operator, "ana")} == set(
        one.accounts
    )


async def test_a_room_lists_who_wrote_in_it_with_all_known_accounts(told: App):
    await told.people.merge("ana", "ana_home")

    for viewer, accounts in ((told.operator, 2), (await told.viewer("dee"), 2), (await told.viewer("bo"), 1)):
        listed = {person.name: person for person in await told.participants(viewer, room="attic")}
        assert set(listed) == {"Ana", "Bo", "Dee"}
        assert len(listed["Ana"].accounts) == accounts


async def test_erased_places_count_for_nothing_and_their_author_is_nobody(
    told: App, admin: psycopg.AsyncConnection
):
    # m12 is the newest of the cellar, and half of what Dee said.
    await admin.execute(
        "insert into participants (org_id, id, kind, name, first_name, first_named_at, named_at)"
        " values (%(org)s, %(org)s, 'system', 'erased', 'erased', '-infinity', '-infinity')",
        {"org": told.org_id},
    )
    await admin.execute(
        "update messages set author_id = org_id, author_name = '', author_kind = 'system', body = '',"
        " redacted_at = now(), erased_at = now() where org_id = %s and external_id = 'm12'",
        [told.org_id],
    )

    cy = await told.viewer("cy")

    assert str(told.org_id) not in {str(person.id) for person in await told.participants(told.operator)}
    assert {person.name: person.message_count for person in await told.participants(cy)}["Dee"] == 0
    assert "erased" not in {person.name for person in await told.participants(cy, room="cellar")}
    cellar = next(room for room in await told.rooms(cy) if room.name == "cellar")
    assert (cellar.message_count, cellar.last_activity_at) == (3, STORY_AT["m9"])
    with pytest.raises(NotFound):
        await told.viewer("erased")
    with pytest.raises(NotFound):
        await told.people.accounts(cy, str(told.org_id))


STORY_AT = {f"m{number}": say(number, BO, SQUARE).sent_at for number in range(1, 13)}


async def test_accounts_are_shown_as_far_as_the_viewer_may_know_them(told: App):
    await told.people.merge("ana", "ana_home")

    async def known(viewer: str, word: str) -> list[tuple[str, bool]]:
        accounts = await told.people.accounts(await told.viewer(viewer), word)
        return [(account.account_id, account.is_merged) for account in accounts]

    both = [("ana", True), ("ana_home", True)]
    assert (
        await known("ana", "ana_home") == await known("ana_home", "Ana") == await known("dee", "ana") == both
    )
    assert await known("bo", "ana") == [("ana", False)]
    assert await known("cy", "Ana_Home") == [("ana_home", False)]
    for viewer, word in (
        ("bo", "ana_home"),
        ("cy", "ana"),
        ("eve", "ana"),
        ("eve", "ana_home"),
        ("eve", "nobody"),
    ):
        assert await error_of(told.people.accounts(await told.viewer(viewer), word)) == (
            NotFound,
            f"no participant {word!r}",
        )


async def test_nobody_is_found_by_a_name_that_the_viewer_was_not_shown(told: App):
    # In the attic Ana is called otherwise now; whoever only met her in the square does not hear of it.
    await told.ingest(say(20, ANA, SQUARE))
    await told.ingest(say(21, author("ana", name="Captain"), ATTIC))

    eve, bo = await told.viewer("eve"), await told.viewer("bo")

    assert [account.name for account in await told.people.accounts(eve, "ana")] == ["Ana"]
    assert [account.name for account in await told.people.accounts(bo, "captain")] == ["Captain"]
    assert [account.name for account in await told.people.accounts(told.operator, "captain")] == ["Captain"]
    with pytest.raises(NotFound):
        await told.people.accounts(eve, "captain")


async def test_a_bridged_account_and_one_of_another_platform_merge_like_any(told: App):
    relayed = author("bridge", persona="Eve", name="Eve", bridged=True)
    await told.ingest(say(20, relayed, SQUARE, platform="irc"))

    eves = {one.platform: one for one in await told.people.accounts(told.operator) if one.name == "Eve"}
    merged = await told.people.merge(*(str(one.participant_id) for one in eves.values()))

    assert {(one.platform, one.account_id, one.persona) for one in merged} == {
        ("test", "eve", ""),
        ("irc", "bridge", "Eve"),
    }
    assert len([one for one in await told.participants(await told.viewer("pip")) if one.name == "Eve"]) == 1


# Any merges and splits


ACTS = st.lists(
    st.tuples(st.sampled_from(["merge", "merge", "split"]), st.sampled_from(PEOPLE), st.sampled_from(PEOPLE)),
    max_size=8,
)
NUMBERS = count()


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
async def test_any_merges_and_splits_leave_persons_who_read_what_their_accounts_may(open_app: OpenApp, acts):
    app = await village(await open_app(f"merges{next(NUMBERS)}"))
    apart = {name: await read_by(app, await app.viewer(name)) for name in PEOPLE}
    persons = [{name} for name in PEOPLE]

    for act, one, other in acts:
        mine = next(person for person in persons if one in person)
        theirs = next(person for person in persons if other in person)
        if act == "split" and len(mine) > 1:
            await app.people.split(one)
            mine.remove(one)
            persons.append({one})
        elif act == "merge" and mine is not theirs and (mine == {"pip"}) == (theirs == {"pip"}):
            await app.people.merge(one, other)
            mine |= theirs
            persons.remove(theirs)
        else:
            with pytest.raises(BadInput):
                await (app.people.split(one) if act == "split" else app.people.merge(one, other))

    listed = await app.participants(app.operator)
    assert sorted(len(person.accounts) for person in listed) == sorted(map(len, persons))
    assert sum(person.message_count for person in listed) == 12
    for person in persons:
        # Known from the start by account, so that the names are not in the way.
        union = set().union(*(apart[name] for name in person))
        for name in person:
            assert await read_by(app, await app.viewer(name)) == union
