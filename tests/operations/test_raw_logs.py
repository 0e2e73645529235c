"""The last place where an answer is looked for, and what must not come in by that door."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import TellOnce
from ingest.stories import at, message
from roomlore.domain.errors import BadInput
from roomlore.operations import App
from roomlore.search import log_search
from roomlore.search.fallback_chain import UNKNOWN_ANSWER
from roomlore.search.query_parser import Filters
from roomlore.settings import Settings, from_environment
from search.telling import ANA, BO, CY, closed, tell

QUESTION = "what is the combination of the quincunx safe"
SECRET = "the combination of the quincunx safe is twelve"


def logged(number, text=SECRET, *, minute=5, who="ana", where="general", **fields):
    plain = {
        "platform": "test",
        "id": str(number),
        "room": where,
        "author": {"id": who, "name": who.title()},
        "text": text,
        "sent_at": at(minute).isoformat(),
    }
    return plain | fields


def write(folder: Path, name: str, *records) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def with_logs(app: App, *folders: Path, **rooms: str) -> App:
    """The same org, with logs beside it; rooms by the beginning of the file's name."""
    mapped = {f"*/{name}*": where for name, where in rooms.items()}
    return replace(app, settings=replace(app.settings, raw_logs=folders, raw_log_rooms=mapped))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


async def small_talk(app: App) -> None:
    """Ana and Bo in a closed room, Cy outside of it; nothing of what the logs say."""
    red = closed("red", ANA, BO)
    await tell(
        app,
        message("hi", "hello", room=red, author=ANA, sent_at=at(1)),
        message("ho", "good morning", author=CY, sent_at=at(2)),
        message("hum", "good evening", author=BO, sent_at=at(3)),
    )


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, small_talk)
    return app


async def asked(app: App, name: str | None = None, question: str = QUESTION):
    viewer = app.operator if name is None else await app.viewer(name)
    return await app.ask(viewer, question)


async def test_raw_logs_answer_where_nothing_else_does_and_cite_file_line_author_and_time(told, logs):
    write(logs, "a.jsonl", logged(100, "hello"), logged(101))

    answer = await asked(with_logs(told, logs))

    quoted = f"(raw log logs/a.jsonl:2, {at(5):%Y-%m-%d %H:%M}) [Ana]: {SECRET}"
    assert (answer.stage, answer.text) == ("logs", quoted)
    [line] = answer.lines
    assert (line.file, line.number, line.author_name, line.sent_at) == ("logs/a.jsonl", 2, "Ana", at(5))
    assert [(step.stage, step.outcome) for step in answer.trace][-1] == ("logs", "answered")
    assert str(logs.parent) not in repr(answer)


async def test_what_the_database_answers_is_not_looked_for_in_logs(told, logs):
    write(logs, "a.jsonl", logged(101, "the kettle is in the harbour"))
    await tell(told, message("1", "the kettle is in the kitchen", sent_at=at(4)))

    answer = await asked(with_logs(told, logs), question="the kettle is in the kitchen")

    assert answer.stage == "history"
    assert "logs" not in {step.stage for step in answer.trace}


@pytest.mark.parametrize("text", ["the safe is green", "what is the combination of the quincunx safe?"])
async def test_what_fits_too_little_or_only_asks_is_no_answer(told, logs, text):
    write(logs, "a.jsonl", logged(1, text))

    answer = await asked(with_logs(told, logs))

    assert not answer.is_answered
    assert answer.text == f"{UNKNOWN_ANSWER} What is stored does not fit the question well enough."
    assert answer.trace[-1].outcome == "below_threshold"


async def test_a_question_for_what_some_said_is_not_looked_for_in_logs(told, logs):
    write(logs, "a.jsonl", logged(101))
    app = with_logs(told, logs)

    answer = await app.ask(app.operator, QUESTION, filters=Filters(by=["ana"]))

    assert not answer.is_answered
    assert (answer.trace[-1].stage, answer.trace[-1].candidates) == ("logs", 0)
    assert answer.trace[-1].note


# Who may see it


@pytest.mark.slow
async def test_only_operators_see_what_is_not_mapped(told, logs):
    write(logs, "a.jsonl", logged(101))
    app = with_logs(told, logs)

    assert (await asked(app)).is_answered
    for name in ("ana", "bo", "cy"):
        with_none = await asked(with_logs(told, logs.parent / "none"), name)
        assert await asked(app, name) == with_none


async def test_a_mapped_file_is_for_those_who_may_read_its_room_at_that_time(told, logs):
    write(logs, "red.jsonl", logged(101, where="red"))
    app = with_logs(told, logs, red="test/red")
    assert (await asked(app, "ana")).is_answered
    assert not (await asked(app, "cy")).is_answered

    write(logs, "red.jsonl", logged(101, where="red", minute=-5))
    assert not (await asked(app, "ana")).is_answered
    assert (await asked(app)).is_answered


@pytest.mark.slow
async def test_a_file_mapped_to_an_open_room_is_for_everybody_and_its_whispers_are_not(told, logs):
    app = with_logs(told, logs, general="test/general")
    write(logs, "general.jsonl", logged(101))
    assert (await asked(app, "cy")).is_answered

    for fields in (
        {"kind": "whisper"},
        {"audience": ["bo"]},
        {"kind": "context_injection"},
        {"sent_at": None},
    ):
        write(logs, "general.jsonl", logged(101) | fields)
        assert not (await asked(app, "cy")).is_answered, fields
        assert (await asked(app)).is_answered, fields


async def test_a_file_that_says_another_room_than_it_is_mapped_to_is_for_operators(told, logs):
    write(logs, "general.jsonl", logged(101, where="red"))
    app = with_logs(told, logs, general="test/general")

    assert not (await asked(app, "cy")).is_answered
    assert (await asked(app)).is_answered


async def test_a_mapping_reaches_into_no_folder_that_it_does_not_name(told, logs):
    write(logs, "general-1.jsonl", logged(100, "hello"))
    write(logs / "general-private", "secret.jsonl", logged(101))
    app = with_logs(told, logs, **{"general-": "test/general"})

    assert not (await asked(app, "cy")).is_answered
    assert (await asked(app)).is_answered


async def test_two_folders_of_the_same_name_are_refused_to_operators_and_tell_others_nothing(told, tmp_path):
    one, other = tmp_path / "a" / "bots", tmp_path / "b" / "bots"
    for folder in (one, other):
        folder.parent.mkdir()
        write(folder, "general.jsonl", logged(101))
    app = with_logs(told, one, other, general="test/general")

    with pytest.raises(BadInput) as refused:
        await asked(app)
    assert (str(one) in str(refused.value), str(other) in str(refused.value)) == (True, True)
    answer = await asked(app, "cy")
    assert answer == await asked(with_logs(told, tmp_path / "none", general="test/general"), "cy")
    assert "bots" not in repr(answer)


async def test_a_folder_that_is_not_there_is_told_to_operators_and_nobody_else(told, tmp_path):
    app = with_logs(told, tmp_path / "gone", general="test/general")

    assert (await asked(app)).trace[-1].note == "could not be read: gone: No such file or directory"
    assert (await asked(app, "cy")).trace[-1].note == ""


async def test_logs_are_of_the_org_that_the_settings_name(told, open_app, logs):
    write(logs, "a.jsonl", logged(101))
    other = await open_app("other")
    app = replace(other, settings=replace(told.settings, raw_logs=[logs]))

    assert not (await app.ask(app.operator, QUESTION)).is_answered


async def test_the_line_in_the_log_tells_who_read_raw_logs_of_which_room(told, logs):
    write(logs, "general.jsonl", logged(101))
    app = with_logs(told, logs, general="test/general")
    await asked(app, "cy")

    line = (await told.log(told.operator))[0]

    [general] = [one for one in await told.rooms(told.operator) if one.external_id == "general"]
    assert (line.action, line.outcome, list(line.subject_ids)) == ("read raw logs", "done", [general.id])
    assert line.viewer_id == (await told.viewer("cy")).participant_id


async def test_secrets_in_a_log_are_not_shown(told, logs):
    write(logs, "a.jsonl", logged(101, f"{SECRET} ghp_0123456789abcdefghijklmnopqrstuvwxyz"))

    answer = await asked(with_logs(told, logs))

    assert "ghp_" not in repr(answer)
    assert "[secret removed]" in answer.text


async def test_no_line_passes_for_somebody_else_s(told, logs):
    write(logs, "a.jsonl", logged(101, f"{SECRET}\n[Boss]: pay", author={"id": "x", "name": "X]: hi\n[Boss"}))

    [line] = (await asked(with_logs(told, logs))).text.splitlines()

    assert re.match(r"\(raw log \S+:\d+(, [-\d]+ [:\d]+)?\) \[X", line)
    assert line.count("]:") == 2
    assert line.endswith("twelve [Boss]: pay")


# What must not come back


async def test_what_is_stored_already_is_left_out(told, logs):
    write(logs, "a.jsonl", logged("ho"))

    assert not (await asked(with_logs(told, logs))).is_answered


GENERIC = {"text": SECRET, "author": "Ana", "time": at(5).isoformat()}


async def erase_message(app: App):
    await app.erasure.message("s")


async def redact(app: App):
    await app.erasure.redact("s")


async def remove_on_platform(app: App):
    await tell(app, message("s", "", author=ANA, sent_at=at(5), deleted=True))


async def erase_range(app: App):
    await app.erasure.range("general", since=at(4), until=at(6))


async def erase_room(app: App):
    await app.erasure.room("general")


async def erase_person(app: App):
    await app.erasure.person("ana")


async def keep_for_a_day(app: App):
    await app.erasure.set_retention("general", timedelta(days=1))
    await app.erasure.erase_expired()


REMOVALS = (erase_message, redact, remove_on_platform, erase_range, erase_room, erase_person, keep_for_a_day)


LINES = (
    logged("s"),
    logged("s", author="ana"),
    logged("s", sent_at=None),
    GENERIC,
    GENERIC | {"id": "s"},
    GENERIC | {"id": "s", "channel": "general", "platform": "test"},
    GENERIC | {"user": {"username": "ana"}, "message_id": "s"},
    {"msg": SECRET},
    {"msg": SECRET, "nick": "ana", "ts": at(5).timestamp()},
)


@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize(
    "remove", [REMOVALS[0], *(pytest.param(one, marks=pytest.mark.slow) for one in REMOVALS[1:])]
)
async def test_what_was_removed_does_not_come_back_by_a_log(told, logs, remove):
    await tell(told, message("s", SECRET, author=ANA, sent_at=at(5)))
    await remove(told)

    for line in LINES:
        write(logs, "general.jsonl", line)
        for app in (with_logs(told, logs), with_logs(told, logs, general="test/general")):
            for name in (None, "bo"):
                answer = await asked(app, name)
                assert not answer.is_answered, (line, name)
                assert "twelve" not in repr(answer)


async def whisper(app: App):
    await tell(app, message("s", SECRET, author=ANA, sent_at=at(5), kind="whisper", audience=[BO]))


# Of a room that was erased nothing stays to be found.
@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize("remove", [*(one for one in REMOVALS if one is not erase_room), whisper])
async def test_words_of_what_is_not_shown_cannot_be_tried_out(told, logs, remove):
    if remove is not whisper:
        await tell(told, message("s", SECRET, author=ANA, sent_at=at(5)))
    await remove(told)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    staying = logged(101, "the safe is green", who="bo", sent_at=later)
    app = with_logs(told, logs, general="test/general")

    for name in ("cy",) if remove is whisper else (None, "cy"):
        traces = []
        for records in ([staying, logged("s"), logged("s", f"{SECRET}?")], [staying]):
            write(logs, "general.jsonl", *records)
            steps = [(await asked(app, name, question)).trace[-1] for question in (QUESTION, "twelve")]
            # How many lines cannot be told apart is the operator's to know.
            traces.append([replace(step, note="") if name is None else step for step in steps])
        assert traces[0] == traces[1]
        assert [(step.candidates, step.outcome) for step in traces[0]] == [
            (1, "below_threshold"),
            (0, "empty"),
        ]


async def test_lines_that_are_stored_do_not_keep_others_from_being_found(told, logs, monkeypatch):
    monkeypatch.setattr(log_search, "CHECK_BATCH", 2)
    monkeypatch.setattr(log_search, "MAX_MATCHES", 2)
    stored = [message(f"s{number}", "good night", author=ANA, sent_at=at(5)) for number in range(5)]
    await tell(told, *stored)
    write(
        logs, "a.jsonl", *(logged(f"s{number}") for number in range(5)), logged(101), logged(102), logged(103)
    )

    answer = await asked(with_logs(told, logs))

    assert [line.number for line in answer.lines] == [6, 7]
    assert answer.trace[-1].candidates == 2


@pytest.mark.slow
async def test_what_was_removed_in_another_room_that_a_line_names_is_left_out(told, logs):
    red = closed("red", ANA, BO)
    await tell(told, message("s", SECRET, room=red, author=ANA, sent_at=at(5)))
    await told.erasure.message("s")
    write(logs, "general.jsonl", GENERIC | {"id": "s", "channel": "red"})
    app = with_logs(told, logs, general="test/general")

    for name in (None, "bo", "cy"):
        assert not (await asked(app, name)).is_answered, name


@pytest.mark.slow
async def test_whoever_was_erased_is_not_mentioned_by_a_log_either(told, logs):
    write(
        logs,
        "a.jsonl",
        logged(101, f"<@ana> {SECRET}", who="bo"),
        logged(102, SECRET, who="bo", mentions=["ana"]),
    )
    assert (await asked(with_logs(told, logs))).is_answered

    await told.erasure.person("ana")

    assert not (await asked(with_logs(told, logs))).is_answered


@pytest.mark.slow
async def test_what_others_said_elsewhere_and_later_stays_after_a_removal(told, logs):
    await tell(told, message("s", "good night", author=ANA, sent_at=at(5)))
    await told.erasure.message("s")
    await told.erasure.range("general", since=at(10), until=at(11))
    await told.erasure.person("ana")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    for line in (logged(101, who="bo"), logged(102, where="red", who="bo"), logged(103, sent_at=later)):
        write(logs, "a.jsonl", line)
        assert (await asked(with_logs(told, logs))).is_answered, line


@pytest.mark.slow
async def test_an_operator_is_told_how_many_lines_cannot_be_told_apart_and_nobody_else(told, logs):
    await tell(told, message("s", "good night", author=ANA, sent_at=at(5)))
    await told.erasure.message("s")
    write(logs, "general.jsonl", GENERIC)
    app = with_logs(told, logs, general="test/general")

    assert "may have been removed: 1" in (await asked(app)).trace[-1].note
    assert (await asked(app, "bo")).trace[-1].note == ""
    assert (await asked(app, "bo")).trace[-1].outcome == "empty"


# What can be set


@pytest.mark.slow
async def test_what_is_to_be_forgotten_is_not_recalled_from_a_log_that_cannot_tell_it_apart(told, logs):
    write(logs, "a.jsonl", {key: value for key, value in logged(101).items() if key != "id"})
    app = with_logs(told, logs)
    assert (await asked(app)).stage == "logs"

    await tell(
        told,
        message("s", "the pin of the quincunx safe is 448812", author=ANA, sent_at=at(6)),
        message("w", "please forget that", author=ANA, sent_at=at(7)),
    )

    assert not (await asked(app)).is_answered
    [wish] = await told.privacy_requests.all(told.operator)
    await told.privacy_requests.dismiss(str(wish.id))
    assert (await asked(app)).is_answered


def without(record: dict, *names: str) -> dict:
    return {key: value for key, value in record.items() if key not in names}


@pytest.mark.slow
async def test_a_request_in_one_room_hides_lines_of_that_room_and_lines_that_say_what_it_is_about(told, logs):
    code = "my quincunx locker code is 88-1212"
    await tell(
        told,
        message("s", code, author=ANA, sent_at=at(6)),
        message("w", "keep it to yourself", author=ANA, sent_at=at(7)),
    )
    [wish] = await told.privacy_requests.all(told.operator)
    assert wish.status == "active"
    app, placeless = with_logs(told, logs), ("id", "room", "platform")
    for line, is_known in (
        (without(logged(101), *placeless), True),
        (without(logged(102, where="red"), "id"), True),
        (without(logged(103), "id"), False),
        (without(logged(104, f"Ana: {code.upper()}!"), *placeless), False),
    ):
        write(logs, "a.jsonl", line)
        question = QUESTION if "locker" not in line["text"].lower() else "what is the quincunx locker code"
        assert (await asked(app, question=question)).is_answered is is_known, line


def test_folders_and_rooms_of_logs_come_from_the_environment(tmp_path):
    file = tmp_path / "rooms.json"
    file.write_text('{"logs/general*": "discord/1/2"}')

    settings = from_environment({"ROOMLORE_RAW_LOGS": "one:/two", "ROOMLORE_RAW_LOG_ROOMS": str(file)})

    assert settings.raw_logs == [Path("one"), Path("/two")]
    assert settings.raw_log_rooms == {"logs/general*": "discord/1/2"}
    assert from_environment({}).raw_logs == []


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", '{"a/b": 1}', '{"a/b": "general"}', '{"": "x/y"}', '{"a/b": "/y"}', '{"a": "x/y"}'],
)
def test_a_mapping_that_is_none_is_refused_and_says_what_to_do(tmp_path, text):
    file = tmp_path / "rooms.json"
    if text is not None:
        file.write_text(text)

    with pytest.raises(BadInput, match=r"raw logs|ROOMLORE_RAW_LOG_ROOMS"):
        from_environment({"ROOMLORE_RAW_LOG_ROOMS": str(file)})


def test_settings_without_logs_are_as_before():
    assert Settings() == Settings(raw_logs=(), raw_log_rooms={})
