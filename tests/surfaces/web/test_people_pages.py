"""The pages of people and of receipts: who is known to whom, and how somebody is merged, parted and forgotten."""

import html
import re
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import Browser

from ingest.stories import author
from operations.village import ANA, PEOPLE, PIP, SQUARE, say, village
from roomlore.operations import App
from roomlore.web.routes import receipts
from surfaces.http.calling import mostly_slow
from surfaces.web.conftest import Visitor, visiting, window


async def key_of(app: App, name: str | None) -> str:
    role = "operator" if name is None else "agent" if name == "pip" else "member"
    return (await app.keys.create(role, name="a key", participant=name)).key


async def ids(app: App) -> dict[str, str]:
    accounts = await app.people.accounts(app.operator)
    return {account.account_id: str(account.participant_id) for account in accounts}


def words(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


# Who is known


async def test_people_are_listed_and_their_twin_says_the_same(local: Visitor) -> None:
    page, twin = await local.page("/people"), await local.twin("/people.json")
    assert {person["accounts"][0]["account_id"] for person in twin["people"]} == set(PEOPLE)
    for person in twin["people"]:
        assert f'href="/people/{person["id"]}"' in page
    assert twin["people"][0]["message_count"] >= twin["people"][-1]["message_count"]


@pytest.mark.parametrize("name", mostly_slow(PEOPLE, "eve"))
async def test_everybody_sees_whom_they_may_know_and_nobody_else(app: App, name: str) -> None:
    await village(app)
    viewer = await app.viewer(name)
    known = {str(person.id): person for person in await app.participants(viewer)}
    everybody = await app.participants(app.operator)
    async with visiting(app, await key_of(app, name)) as visitor:
        page, twin = await visitor.page("/people"), await visitor.twin("/people.json")
        assert {person["id"] for person in twin["people"]} == set(known)
        for person in everybody:
            path = f"/people/{person.id}"
            told = await visitor.get(path)
            if str(person.id) in known:
                assert told.status_code == 200
                seen = await visitor.twin(f"{path}.json")
                assert seen["person"]["message_count"] == known[str(person.id)].message_count
                assert seen["opinions"] == []
            else:
                assert told.status_code == (await visitor.get(f"{path}.json")).status_code == 404
                assert str(person.id) not in page
                for deed in ("merge", "split", "forget"):
                    sent = await visitor.send(
                        f"{path}/{deed}", other=name, account=str(person.id), name=person.name
                    )
                    assert sent.status_code in {403, 404}, deed
    assert await app.participants(app.operator) == everybody


async def test_an_operator_sees_as_another_what_that_one_sees(app: App) -> None:
    await village(app)
    async with (
        visiting(app, await key_of(app, None)) as operator,
        visiting(app, await key_of(app, "eve")) as eve,
    ):
        own = await eve.twin("/people.json")
        assert await operator.twin("/people.json?as=eve") == own
        page = await operator.page("/people?as=eve")
        assert 'href="/people/' in page
        # All but the one that leads back to oneself.
        led = re.findall(r'href="(/people[^"]*)"', page)
        assert [found for found in led if "as=eve" not in found] == ["/people"]


async def test_people_are_found_by_name_account_and_kind(local: Visitor) -> None:
    found = await local.twin("/people.json?named=AN")
    assert {person["accounts"][0]["account_id"] for person in found["people"]} == {"ana", "ana_home"}
    assert [person["name"] for person in (await local.twin("/people.json?kind=agent"))["people"]] == ["Pip"]
    nobody = await local.page("/people?named=zzz")
    assert "No person matches" in nobody
    for path in ("/people?kind=robot", "/people?page=0", "/people?page=x", "/people?page=999999999"):
        told = await local.get(path)
        assert told.status_code == 400, path
        assert path.partition("?")[2].partition("=")[0] in told.text


async def test_many_people_are_shown_page_by_page(app: App) -> None:
    crowd = [say(number, author(f"p{number:03}"), SQUARE) for number in range(120)]
    await app.ingest_batch(crowd)
    async with visiting(app) as visitor:
        pages = [await visitor.twin(f"/people.json?page={number}") for number in (1, 2, 3, 4)]
        seen = [person["id"] for page in pages[:3] for person in page["people"]]
        assert len(set(seen)) == len(seen) == pages[0]["found"] == 120
        assert pages[3] == pages[2]
        assert 'rel="next"' in await visitor.page("/people?page=2&named=p")
        assert 'rel="next"' not in await visitor.page("/people?page=3")


@pytest.mark.slow
async def test_of_many_people_only_those_of_a_page_are_looked_up(app: App) -> None:
    await app.ingest_batch([say(number, author(f"p{number:03}"), SQUARE) for number in range(120)])
    p7 = (await ids(app))["p007"]
    key = await key_of(app, "p005")
    async with visiting(app, key) as visitor, visiting(app) as operator:
        for looking in (visitor, operator):
            for path, shown in (
                ("/people.json?page=2", 50),
                ("/people.json?named=P01", 10),
                ("/people.json?named=zzz", 0),
                (f"/people/{p7}.json", 1),
            ):
                last = (await app.log(app.operator, limit=1))[0].id
                await looking.twin(path)
                lines = [line for line in await app.log(app.operator, limit=20) if line.id > last]
                told = [
                    key for line in lines if line.action == "list participants" for key in line.subject_ids
                ]
                assert len(told) == shown, path


async def test_a_person_is_found_by_every_account_and_persona_of_theirs(app: App) -> None:
    await village(app)
    await app.people.merge("ana", "ana_home")
    async with visiting(app) as visitor:
        for named in ("ana_h", "ANA_HOME", "ana"):
            [found] = (await visitor.twin(f"/people.json?named={named}"))["people"]
            assert {account["account_id"] for account in found["accounts"]} == {"ana", "ana_home"}, named
        # None of these stands for anything.
        for named in ("%25", "_%25", "an_%25", "a.a"):
            assert (await visitor.twin(f"/people.json?named={named}"))["people"] == []


async def test_who_is_nobody_is_told_so(local: Visitor) -> None:
    for person in ["x", "0", "%00", "ana", "00000000-0000-0000-0000-000000000000", "a" * 300]:
        for path in (f"/people/{person}", f"/people/{person}.json", f"/people/{person}/erase"):
            assert (await local.get(path)).status_code == 404, path


async def test_an_org_of_nobody_says_so(app: App) -> None:
    async with visiting(app) as visitor:
        assert "There are no people yet" in await visitor.page("/people")
        assert "Nothing was erased yet" in await visitor.page("/receipts")


# Merged and parted


async def test_an_operator_merges_and_parts_accounts(app: App) -> None:
    await village(app)
    known = await ids(app)
    async with visiting(app) as visitor:
        path = f"/people/{known['ana']}"
        told = await visitor.send(f"{path}/merge", on=path, other="ana_home")
        assert told.headers["location"] == f"{path}?done=merged"
        page = await visitor.page(told.headers["location"])
        assert "one person now" in page
        twin = await visitor.twin(f"{path}.json")
        assert {account["account_id"] for account in twin["person"]["accounts"]} == {"ana", "ana_home"}
        # By whatever account one is the same person.
        other = await visitor.twin(f"/people/{known['ana_home']}.json")
        assert other == twin
        told = await visitor.send(f"{path}/split", on=path, account=known["ana_home"])
        assert told.headers["location"] == f"{path}?done=parted"
        assert len((await visitor.twin(f"{path}.json"))["person"]["accounts"]) == 1
        again = await visitor.send(f"{path}/split", on=path, account=known["ana_home"])
        assert again.status_code == 400
        assert "is merged with nobody" in again.text


@pytest.mark.parametrize("name", ["ana", "pip"])
async def test_nobody_else_merges_or_parts_or_forgets_others(app: App, name: str) -> None:
    await village(app)
    known, before = await ids(app), await app.people.accounts(app.operator)
    async with visiting(app, await key_of(app, name)) as visitor:
        path = f"/people/{known['bo']}"
        page = await visitor.page(path)
        for offered in ("/merge", "/split", "/erase", "as="):
            assert offered not in page
        assert (await visitor.send(f"{path}/merge", other="eve")).status_code == 403
        assert (await visitor.send(f"{path}/split", account=known["bo"])).status_code == 403
        assert (await visitor.get(f"{path}/erase")).status_code == 403
        assert (await visitor.get(f"{path}/erase.json")).status_code == 403
        assert (await visitor.send(f"{path}/erase", name="Bo")).status_code == 403
        assert (await visitor.send(f"{path}/erase/look")).status_code == 403
    assert await app.people.accounts(app.operator) == before


# Forgotten


@pytest.mark.slow
async def test_a_person_is_forgotten_after_a_look_and_by_name(app: App) -> None:
    await village(app)
    bo = (await ids(app))["bo"]
    async with visiting(app) as visitor:
        path = f"/people/{bo}/erase"
        before, twin = await visitor.page(path), await visitor.twin(f"{path}.json")
        assert "Nothing is erased yet" in before
        assert twin["receipt"] is None
        looked = await visitor.send(f"{path}/look", on=path)
        assert looked.status_code == 200
        assert "Nothing is erased yet" in looked.text
        # It is a page like others: what its footer links to is there.
        assert f'href="{path}.json"' in looked.text
        rows = re.findall(
            r'<tr><th scope="row">([^<]+)</th><td class="number">([^<]+)</td><td>',
            looked.text.partition("What stays")[0],
        )
        would = {what: int(number) for what, number in rows}
        assert would["messages"] == 3
        refused = await visitor.send(path, on=path, name="Ana")
        assert refused.status_code == 400
        assert "nothing was erased" in refused.text
        assert (await visitor.get(f"/people/{bo}")).status_code == 200

        told = await visitor.send(path, on=path, name="bo")
        assert told.status_code == 303
        receipt = await visitor.page(told.headers["location"])
        assert "It is erased." in receipt
        assert "clean" in receipt
        shown = await visitor.twin(told.headers["location"].partition("?")[0] + ".json")
        assert {one["what"]: one["count"] for one in shown["receipt"]["removed"]} == would
        assert shown["receipt"]["is_clean"] is True
        assert (await visitor.get(f"/people/{bo}")).status_code == 404
        listed = await visitor.twin("/receipts.json")
        assert [one["id"] for one in listed["receipts"]] == [shown["receipt"]["id"]]
        assert "Bo" not in words(receipt)

        again = await visitor.send(f"/receipts/{shown['receipt']['id']}/verify", on="/receipts")
        assert again.headers["location"].endswith("?done=checked")


async def test_whoever_forgets_themselves_is_out(app: App) -> None:
    await village(app)
    eve = (await ids(app))["eve"]
    async with visiting(app, await key_of(app, "eve")) as visitor:
        path = f"/people/{eve}"
        assert f'href="{path}/erase"' in await visitor.page(path)
        assert "you are signed out" in await visitor.page(f"{path}/erase")
        told = await visitor.send(f"{path}/erase", on=path, name="Eve")
        assert told.status_code == 303
        assert (await visitor.get(told.headers["location"])).headers["location"].startswith("/signin")
    assert "eve" not in await ids(app)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("called", ["", " ", "\u200b", "Zoe   of  the\tMill"])
async def test_somebody_whose_name_nobody_can_type_is_forgotten_too(app: App, called: str) -> None:
    await village(app)
    await app.ingest_batch([say(90, author("nameless7", name=called), SQUARE)])
    path = f"/people/{(await ids(app))['nameless7']}/erase"
    async with visiting(app) as visitor:
        shown = html.unescape(await visitor.page(path))
        asked = re.search("type the name: ([^<]+)</label>", shown)
        assert asked
        assert (await visitor.send(path, on=path, name="(no name)")).status_code == 400
        assert (await visitor.send(path, on=path, name=asked[1])).status_code == 303
    assert "nameless7" not in await ids(app)


@pytest.mark.parametrize("name", ["ana", "eve"])
async def test_receipts_are_for_those_who_asked_for_them(app: App, name: str) -> None:
    await village(app)
    theirs = await app.impersonate(await app.viewer("bo")).erasure.message("m5")
    async with visiting(app, await key_of(app, name)) as visitor:
        real, made_up = f"/receipts/{theirs.id}", f"/receipts/{UUID(int=theirs.id.int ^ 1)}"
        for tail in ("", ".json"):
            told = [await visitor.get(path + tail) for path in (real, made_up)]
            assert {one.status_code for one in told} == {404}
        assert (await visitor.twin("/receipts.json"))["receipts"] == []
        assert str(theirs.id) not in await visitor.page("/receipts")
        assert (await visitor.send(f"{real}/verify")).status_code == 404
    async with visiting(app, await key_of(app, "bo")) as visitor:
        assert (await visitor.twin(f"{real}.json"))["receipt"]["id"] == str(theirs.id)


async def test_a_receipt_says_of_copies_no_more_than_it_counts(app: App, admin) -> None:
    await village(app)
    await admin.execute(
        "insert into projections (org_id, target, index_name) values (%s, 'qdrant', 'a')", [app.org_id]
    )
    theirs = await app.impersonate(await app.viewer("bo")).erasure.message("m5")
    [in_full] = [one for one in await app.erasure.receipts() if one.id != theirs.id]
    await admin.execute(
        "update work_queue set subject_id = (select id from messages where org_id = %(org_id)s and external_id = 'm1')"
        " where org_id = %(org_id)s and queue = 'qdrant' and subject_id = %(message_id)s",
        {"org_id": app.org_id, "message_id": theirs.message_id},
    )
    # What waits now is not bo's, and is not counted for him.
    assert "! not removed yet" in await _copies(app, None, str(in_full.id))
    shown = await _copies(app, "bo", str(theirs.id))
    assert "✓ messages and accounts removed" in shown
    assert "Data derived from them is not counted here" in shown
    assert "everything that the verification requested" not in shown
    await admin.execute("delete from work_queue where org_id = %s and queue = 'qdrant'", [app.org_id])
    shown = await _copies(app, None, str(in_full.id))
    assert "✓ removed" in shown
    assert "everything that the verification requested from the indexes" in shown


async def _copies(app: App, name: str | None, receipt: str) -> str:
    """Return what somebody is shown of copies on the page of a receipt."""
    async with visiting(app, await key_of(app, name)) as visitor:
        _, _, shown = (await visitor.page(f"/receipts/{receipt}")).partition('id="copies"')
    return words(shown)


async def test_of_many_receipts_the_newest_come_first_and_more_when_asked(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "SHOWN", 2)
    await village(app)
    made = [str((await app.erasure.message(f"m{number}")).id) for number in (1, 2, 3)]
    async with visiting(app) as visitor:
        first = await visitor.twin("/receipts.json")
        assert [one["id"] for one in first["receipts"]] == made[:0:-1]
        assert first["more"] == 4
        rest = await visitor.twin("/receipts.json?limit=4")
        assert ([one["id"] for one in rest["receipts"]], rest["more"]) == (made[::-1], None)


# Wishes and what agents make of somebody


async def wished(app: App) -> App:
    await village(app)
    told = await app.ingest_batch(
        [
            say(20, ANA, SQUARE, body="my wolfram account is 4412-9981"),
            say(21, ANA, SQUARE, body="please forget that"),
        ]
    )
    assert told.skipped == []
    await app.drain()
    return app


@pytest.mark.slow
async def test_wishes_are_shown_to_who_voiced_them_and_to_operators(app: App) -> None:
    await wished(app)
    known = await ids(app)
    path = f"/people/{known['ana']}"
    async with visiting(app) as operator:
        [wish] = (await operator.twin(f"{path}.json"))["privacy_requests"]
    for name, sees in (("ana", True), ("bo", False), ("pip", False), ("eve", False)):
        async with visiting(app, await key_of(app, name)) as visitor:
            page, twin = await visitor.page(path), await visitor.twin(f"{path}.json")
            assert bool(twin["privacy_requests"]) is sees, name
            assert (wish["id"] in page) is sees, name
            if not sees:
                for deed in ("apply", "dismiss"):
                    assert (
                        await visitor.send(f"{path}/privacy-requests/{wish['id']}/{deed}")
                    ).status_code == 404
    async with visiting(app, await key_of(app, "ana")) as visitor:
        told = await visitor.send(f"{path}/privacy-requests/{wish['id']}/dismiss", on=path)
        assert told.headers["location"] == f"{path}?done=dismissed#privacy-requests"
        assert (await visitor.twin(f"{path}.json"))["privacy_requests"][0]["status"] == "dismissed"
        assert "Carry it out" in await visitor.page(path)
        await visitor.send(f"{path}/privacy-requests/{wish['id']}/apply", on=path)
        assert (await visitor.twin(f"{path}.json"))["privacy_requests"][0]["status"] == "active"


@pytest.mark.slow
async def test_what_an_agent_makes_of_others_is_its_own_and_operators(app: App) -> None:
    await village(app)
    await app.ingest_batch(
        [
            say(30, ANA, SQUARE, body="pip, what time is it?"),
            say(31, PIP, SQUARE, body="it is noon", reply_to="m30"),
        ]
    )
    await app.drain()
    await app.agents.set_trust("pip", "cy", 0.9)
    known = await ids(app)
    pip, ana = f"/people/{known['pip']}", f"/people/{known['ana']}"

    async def seen(visitor: Visitor) -> tuple[Any, Any]:
        return (await visitor.twin(f"{pip}.json"))["relationships"], (await visitor.twin(f"{ana}.json"))[
            "opinions"
        ]

    async with visiting(app) as visitor:
        relationships, opinions = await seen(visitor)
        assert known["ana"] in {one["participant_id"] for one in relationships}
        assert [one["agent_id"] for one in opinions] == [known["pip"]]
        assert "Opinions of agents about" in await visitor.page(ana)
        assert "0.90 was stated by an operator" in words(await visitor.page(pip))
    async with visiting(app, await key_of(app, "pip")) as visitor:
        relationships, opinions = await seen(visitor)
        assert relationships
        assert opinions == []
    async with visiting(app, await key_of(app, "ana")) as visitor:
        assert await seen(visitor) == ([], [])
        assert "trust" not in words(await visitor.page(pip)).casefold()


# For everybody


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_everybody_can_use_the_pages_of_people(app: App, browser: Browser, theme: str) -> None:
    await wished(app)
    await app.people.merge("ana", "ana_home")
    receipt = await app.erasure.message("m2")
    known = await ids(app)
    ana, pip = known["ana"], known["pip"]
    async with window(browser, app, theme=theme) as seen:
        for name, path in {
            "people": "/people",
            "person": f"/people/{ana}",
            "agent": f"/people/{pip}",
            "forget": f"/people/{ana}/erase",
            "receipts": "/receipts",
            "receipt": f"/receipts/{receipt.id}",
            "none": "/people?named=zzz",
        }.items():
            page = await seen.open(path)
            assert await seen.violations() == [], name
            assert seen.faults == [], name
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


@pytest.mark.slow
async def test_a_person_is_forgotten_with_the_keyboard_alone(app: App, browser: Browser) -> None:
    await village(app)
    eve = (await ids(app))["eve"]
    async with window(browser, app) as seen:
        page = await seen.open(f"/people/{eve}")
        await walk_to(page, "after a look at what would go")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/erase")
        await walk_to(page, "Preview", tag="BUTTON")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/erase/look")
        assert await seen.violations() == []
        await walk_to(page, "", tag="INPUT")
        await page.keyboard.type("Eve")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/receipts/**")
        assert await page.text_content("[role=status]") == "It is erased. Only this receipt is left."
        assert seen.faults == []
    assert "eve" not in await ids(app)


async def walk_to(page: Any, words: str, *, tag: str = "A") -> None:
    """Press Tab until what is focused is that."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        found = await page.evaluate(
            "() => [document.activeElement.tagName, document.activeElement.textContent,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        if found[0] == tag and words in found[1]:
            assert found[2] != "none"
            return
    pytest.fail(f"nobody reaches {words!r}")
