"""The logs that clients write without being told how: read exactly to the line, over days and over summer time."""

from datetime import date

import pytest

from roomlore.domain.errors import BadInput
from roomlore.importers.irc import IMPORTER

#: By client: the name of the file, and what it writes. All tell the same evening and morning.
IRSSI = """--- Log opened Thu Feb 26 22:00:00 2026
22:00 -!- ana [~ana@host.example] has joined #plans
22:00 [Users #plans]
22:00 [@ben] [ ana]
22:00 -!- Irssi: #plans: Total of 2 nicks [1 ops, 0 halfops, 0 voices, 1 normal]
22:01 < ana> is the release out?
22:02 <@ben> not yet: 12:30 <ana> was too early
22:03  * ana waits
22:03 -buildbot:#plans- build 415 passed
23:59 -!- ben is now known as ben_
--- Day changed Fri Feb 27 2026
00:01 <@ben_> now it is
09:30 <+cleo>  thanks
--- Log closed Fri Feb 27 09:31:00 2026
--- Log opened Mon Mar 02 08:00:00 2026
08:00 < ana> morning
"""
WEECHAT = """2026-02-26 22:00:00\t****  Beginning of log  ****
2026-02-26 22:00:01\t-->\tana (~ana@host.example) has joined #plans
2026-02-26 22:01:07\tana\tis the release out?
2026-02-26 22:02:00\t@ben\tnot yet:\ttabs too
2026-02-26 22:03:00\t *\tana waits
2026-02-26 23:59:59\t--\tben is now known as ben_
2026-02-27 00:01:00\t@ben_\tnow it is
2026-02-27 09:30:00\t<--\tcleo (~c@host) has quit (Ping timeout)
2026-02-27 09:31:00\t****  End of log  ****
"""
HEXCHAT = """**** BEGIN LOGGING AT Wed Dec 31 23:00:00 2025

Dec 31 23:00:01 *\tNow talking on #plans
Dec 31 23:00:02 *\tben (~ben@host.example) has joined
Dec 31 23:01:00 <ana>\tis the release out?
Dec 31 23:02:00 <@ben>\tnot yet
Dec 31 23:03:00 *\tana waits
Dec 31 23:04:00 -buildbot/#plans-\tbuild 415 passed
Dec 31 23:05:00 *\tben is now known as ben_
Dec 31 23:06:00 *\tChanServ gives channel operator status to ben_
Jan 01 00:01:00 <ben_>\tnow it is
**** ENDING LOGGING AT Thu Jan  1 00:02:00 2026

"""
MIRC = """Session Start: Thu Feb 26 22:00:00 2026
Session Ident: #plans
[22:00] * Now talking in #plans
[22:00] * Joins: ben (~ben@host.example)
[22:01] <ana> is the release out?
[22:02] <@ben> not \x02yet\x0f, \x0304,01later
[22:03] * ana waits
[22:03] * ChanServ sets mode: +o ben
[22:04] * ben was kicked by ana (sorry)
[22:05] -buildbot:#plans- build 415 passed
Session Time: Fri Feb 27 00:00:00 2026
[00:01] <ben_> now it is
Session Close: Fri Feb 27 00:05:00 2026

Session Start: Mon Mar 02 08:00:00 2026
Session Ident: #plans
[08:00] <ana> morning
"""
ZNC_EVENING = """[22:00:01] *** Joins: ana (~ana@host.example)
[22:01:07] <ana> is the release out?
[22:03:00] * ana waits
[22:03:30] -buildbot- build 415 passed
[23:59:59] *** ben is now known as ben_
"""
ZNC_MORNING = "[00:01:00] <ben_> now it is\n[00:02:00] *** Quits: cleo (~c@host) (Ping timeout)\n"
EGGDROP = """[22:01] <ana> is the release out?
[22:03] Action: ana waits
[00:00] --- Fri Feb 27 2026
[00:01] <ben> now it is
"""


def told(result):
    """Return each message: when, who (a star for the platform) and what."""
    return [
        (f"{m.sent_at:%Y-%m-%d %H:%M:%S}", m.author.name if m.kind == "message" else "*", m.body)
        for m in result.messages
    ]


def test_irssi(read, write):
    result = read(IMPORTER, write({"#plans.log": IRSSI}))
    assert result.skipped == []
    assert told(result) == [
        ("2026-02-26 22:00:00", "*", "-!- ana [~ana@host.example] has joined #plans"),
        ("2026-02-26 22:00:00", "*", "[Users #plans]"),
        ("2026-02-26 22:00:00", "*", "[@ben] [ ana]"),
        (
            "2026-02-26 22:00:00",
            "*",
            "-!- Irssi: #plans: Total of 2 nicks [1 ops, 0 halfops, 0 voices, 1 normal]",
        ),
        ("2026-02-26 22:01:00", "ana", "is the release out?"),
        ("2026-02-26 22:02:00", "ben", "not yet: 12:30 <ana> was too early"),
        ("2026-02-26 22:03:00", "ana", "waits"),
        ("2026-02-26 22:03:00", "buildbot", "build 415 passed"),
        ("2026-02-26 23:59:00", "*", "-!- ben is now known as ben_"),
        ("2026-02-27 00:01:00", "ben_", "now it is"),
        ("2026-02-27 09:30:00", "cleo", " thanks"),
        ("2026-03-02 08:00:00", "ana", "morning"),
    ]


def test_weechat(read, write):
    result = read(IMPORTER, write({"irc.libera.#plans.weechatlog": WEECHAT}))
    assert result.skipped == []
    assert told(result) == [
        ("2026-02-26 22:00:01", "*", "--> ana (~ana@host.example) has joined #plans"),
        ("2026-02-26 22:01:07", "ana", "is the release out?"),
        ("2026-02-26 22:02:00", "ben", "not yet:\ttabs too"),
        ("2026-02-26 22:03:00", "ana", "waits"),
        ("2026-02-26 23:59:59", "*", "-- ben is now known as ben_"),
        ("2026-02-27 00:01:00", "ben_", "now it is"),
        ("2026-02-27 09:30:00", "*", "<-- cleo (~c@host) has quit (Ping timeout)"),
    ]
    assert {(m.room.external_id, m.room.name) for m in result.messages} == {("libera/#plans", "#plans")}


def test_hexchat_over_new_year(read, write):
    result = read(IMPORTER, write({"#plans.log": HEXCHAT}))
    assert result.skipped == []
    assert told(result) == [
        ("2025-12-31 23:00:01", "*", "* Now talking on #plans"),
        ("2025-12-31 23:00:02", "*", "* ben (~ben@host.example) has joined"),
        ("2025-12-31 23:01:00", "ana", "is the release out?"),
        ("2025-12-31 23:02:00", "ben", "not yet"),
        ("2025-12-31 23:03:00", "ana", "waits"),
        ("2025-12-31 23:04:00", "buildbot", "build 415 passed"),
        ("2025-12-31 23:05:00", "*", "* ben is now known as ben_"),
        ("2025-12-31 23:06:00", "*", "* ChanServ gives channel operator status to ben_"),
        ("2026-01-01 00:01:00", "ben_", "now it is"),
    ]


def test_mirc(read, write):
    result = read(IMPORTER, write({"20260226.log": MIRC}))
    assert result.skipped == []
    assert told(result) == [
        ("2026-02-26 22:00:00", "*", "* Now talking in #plans"),
        ("2026-02-26 22:00:00", "*", "* Joins: ben (~ben@host.example)"),
        ("2026-02-26 22:01:00", "ana", "is the release out?"),
        ("2026-02-26 22:02:00", "ben", "not yet, later"),
        ("2026-02-26 22:03:00", "ana", "waits"),
        ("2026-02-26 22:03:00", "*", "* ChanServ sets mode: +o ben"),
        ("2026-02-26 22:04:00", "*", "* ben was kicked by ana (sorry)"),
        ("2026-02-26 22:05:00", "buildbot", "build 415 passed"),
        ("2026-02-27 00:01:00", "ben_", "now it is"),
        ("2026-03-02 08:00:00", "ana", "morning"),
    ]
    assert {m.room.external_id for m in result.messages} == {"#plans"}


def test_znc(read, write):
    files = {"libera/#plans/2026-02-26.log": ZNC_EVENING, "libera/#plans/2026-02-27.log": ZNC_MORNING}
    result = read(IMPORTER, write(files))
    assert result.skipped == []
    assert told(result) == [
        ("2026-02-26 22:00:01", "*", "*** Joins: ana (~ana@host.example)"),
        ("2026-02-26 22:01:07", "ana", "is the release out?"),
        ("2026-02-26 22:03:00", "ana", "waits"),
        ("2026-02-26 22:03:30", "buildbot", "build 415 passed"),
        ("2026-02-26 23:59:59", "*", "*** ben is now known as ben_"),
        ("2026-02-27 00:01:00", "ben_", "now it is"),
        ("2026-02-27 00:02:00", "*", "*** Quits: cleo (~c@host) (Ping timeout)"),
    ]
    assert {m.room.external_id for m in result.messages} == {"#plans"}


def test_znc_keeps_the_networks_apart(read, write):
    files = {f"{network}/#plans/2026-02-26.log": ZNC_EVENING for network in ("libera", "oftc")}
    result = read(IMPORTER, write(files))
    assert {m.room.external_id for m in result.messages} == {"libera/#plans", "oftc/#plans"}
    assert len({(m.room.external_id, m.external_id) for m in result.messages}) == len(result.messages)


def test_eggdrop(read, write):
    result = read(IMPORTER, write({"#plans.20260226.log": EGGDROP}))
    assert told(result) == [
        ("2026-02-26 22:01:00", "ana", "is the release out?"),
        ("2026-02-26 22:03:00", "ana", "waits"),
        ("2026-02-27 00:01:00", "ben", "now it is"),
    ]


def test_what_two_said_and_what_the_client_says_is_for_nobody_else(read, write):
    line = "2026-02-26 22:01:07\tana\thi\n"
    files = {f"irc.libera.{name}.weechatlog": line for name in ("#plans", "ben")}
    result = read(
        IMPORTER, write(files | {"irc.server.libera.weechatlog": line, "core.weechat.weechatlog": line})
    )
    assert {(m.room.name, m.room.kind, m.room.visibility) for m in result.messages} == {
        ("#plans", "channel", None),
        ("ben", "dm", "members"),
        ("irc.server.libera", "system", "members"),
        ("core.weechat", "system", "members"),
    }


BERLIN_AUTUMN = """--- Log opened Sun Oct 25 01:30:00 2026
01:59 <ana> before
02:10 <ana> first time
02:50 <ben> still the first
02:05 <ana> second time
02:50 <ben> still the second
03:01 <ana> winter
"""
BERLIN_SPRING = "--- Log opened Sun Mar 29 01:30:00 2026\n01:59 <ana> before\n03:00 <ana> summer\n"


def test_the_hour_that_comes_twice_keeps_the_order_of_the_file(read, write):
    result = read(IMPORTER, write({"#plans.log": BERLIN_AUTUMN}), zone="Europe/Berlin")
    assert [f"{m.sent_at:%H:%M}" for m in result.messages] == [
        "23:59",
        "00:10",
        "00:50",
        "01:05",
        "01:50",
        "02:01",
    ]
    assert {m.metadata["platform"]["time_zone"] for m in result.messages} == {"Europe/Berlin"}


def test_the_hour_that_never_comes(read, write):
    result = read(IMPORTER, write({"#plans.log": BERLIN_SPRING}), zone="Europe/Berlin")
    assert [f"{m.sent_at:%H:%M}" for m in result.messages] == ["00:59", "01:00"]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("log", [IRSSI, WEECHAT, HEXCHAT, MIRC, BERLIN_AUTUMN, BERLIN_SPRING])
def test_the_order_of_the_lines_is_the_order_in_the_room(read, write, *, log, zone):
    messages = read(IMPORTER, write({"#plans.log": log}), zone=zone).messages
    assert sorted(messages, key=lambda m: (m.sent_at, m.order)) == messages
    assert len({m.external_id for m in messages}) == len(messages)


def test_the_zone_changes_no_ids(read, write):
    root = write({"#plans.log": BERLIN_AUTUMN})
    plain, zoned = read(IMPORTER, root), read(IMPORTER, root, zone="Europe/Berlin")
    assert [m.external_id for m in plain.messages] == [m.external_id for m in zoned.messages]


def test_a_clock_that_falls_back_by_hours_has_passed_midnight(read, write):
    result = read(IMPORTER, write({"2026-02-26.log": "[20:00] <ana> night\n[10:00] <ben> morning\n"}))
    assert [f"{m.sent_at:%d %H}" for m in result.messages] == ["26 20", "27 10"]


@pytest.mark.parametrize(
    ("log", "missing"),
    [
        (
            "22:01 <ana> hi\n--- Day changed Fri Feb 27 2026\n00:01 <ben> ho\n",
            "line 1: tells hours but no date",
        ),
        ("Feb 26 22:01:00 <ana>\thi\n", "tells day and hour but no year"),
        ("--- Log opened Do Qux 26 22:00:00 2026\n22:01 <ana> hi\n", "line 1: names a day"),
        ("22:01 <ana> hi\n--- Day changed чт фвр 27 2026\n00:01 <ana> ho\n", "line 2: names a day"),
        ("Qux 26 22:01:00 <ana>\thi\n", "month that is not understood"),
    ],
)
def test_a_log_whose_days_cannot_be_known_is_refused_and_says_what_is_missing(read, write, *, log, missing):
    day = date(2026, 2, 26) if "line 2" in missing else None
    with pytest.raises(BadInput, match=missing):
        read(IMPORTER, write({"#plans.log": log, "good.log": IRSSI}), day=day)


def test_the_day_of_the_first_line_may_be_given(read, write):
    log = "22:01 <ana> hi\n--- Day changed Sat Feb 28 2026\n00:01 <ben> ho\n"
    result = read(IMPORTER, write({"#plans.log": log}), day=date(2026, 2, 26))
    assert [f"{m.sent_at:%m-%d}" for m in result.messages] == ["02-26", "02-28"]
    hexchat = read(
        IMPORTER, write({"#rust.log": "Feb 26 22:01:00 <ana>\thi\n"}) / "#rust.log", day=date(2026, 1, 1)
    )
    assert f"{hexchat.only.sent_at:%Y-%m-%d %H}" == "2026-02-26 22"


def test_marks_in_other_languages(read, write):
    german = "--- Log opened Do Mär 26 22:00:00 2026\n22:01 <ana> hi\n"
    hexchat = "**** BEGINN DER AUFZEICHNUNG AM Thu Feb 26 22:00:00 2026\n\nFeb 26 22:01:00 <ana>\thi\n"
    result = read(IMPORTER, write({"a.log": german, "b.log": hexchat}))
    assert [f"{m.sent_at:%m-%d}" for m in result.messages] == ["03-26", "02-26"]


def test_what_the_platform_reports_is_said_by_nobody(read, write):
    reports = (
        "* Joins: ana (~a@host)",
        "* Quits: ana (~a@host) (Ping timeout)",
        "* ana (~a@host) has left #plans",
        "* ana has quit (Quit: bye)",
        "* ana is now known as ben",
        "* ana sets mode: +b *!*@host",
        "* ana changes topic to 'cake'",
        "* ben has kicked ana from #plans (no)",
        "* ben removes channel operator status from ana",
        "* Topic is 'cake'",
        "* You have been kicked from #plans by ben (no)",
        "*** Parts: ana (~a@host) ()",
        "-!- mode/#plans [+o ana] by ben",
    )
    log = "".join(f"[12:00] {line}\n" for line in (*reports, "* ana is now happy", "<ana> hi"))
    result = read(IMPORTER, write({"2026-02-26.log": log}))
    assert [(m.kind, m.author.name) for m in result.messages] == [
        *[("system", "IRC")] * len(reports),
        ("message", "ana"),
        ("message", "ana"),
    ]
