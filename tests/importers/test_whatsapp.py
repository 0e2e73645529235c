# ruff: noqa: ISC004, RUF001  chats in many scripts
import zipfile
from datetime import UTC, datetime

import pytest

from roomlore.importers.reading.export import open_export
from roomlore.importers.whatsapp.chat_export import IMPORTER, chat_title

MARK = "\u200e"
#: Chats of two people: what the phone wrote, by language. Each says hello, sends a file, writes two lines and edits.
LANGUAGES = {
    "English, iPhone": (
        "WhatsApp Chat - Ana.zip",
        f"[1/20/24, 9:05:12\u202fPM] Ana: {MARK}Messages and calls are end-to-end encrypted.\n"
        "[1/20/24, 9:05:12\u202fPM] Ana: Hello\n"
        f"{MARK}[1/20/24, 9:06:00\u202fPM] Ben: {MARK}<attached: 00000012-PHOTO.jpg>\n"
        "[1/21/24, 12:07:00\u202fAM] Ben: one\ntwo\n"
        f"[1/21/24, 10:00:00\u202fAM] Ana: Bye {MARK}<This message was edited>\n",
    ),
    "German, Android": (
        "WhatsApp-Chat mit Ana.txt",
        "20.01.24, 21:05 - Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt. Tippe, um mehr zu erfahren.\n"
        "20.01.24, 21:05 - Ana: Hello\n"
        "20.01.24, 21:06 - Ben: 00000012-PHOTO.jpg (Datei angehängt)\n"
        "21.01.24, 00:07 - Ben: one\ntwo\n"
        "21.01.24, 10:00 - Ana: Bye <Diese Nachricht wurde bearbeitet>\n",
    ),
    "Spanish, Android": (
        "Chat de WhatsApp con Ana.txt",
        "20/1/24, 9:05\u202fp.\u00a0m. - Los mensajes y las llamadas están cifrados de extremo a extremo.\n"
        "20/1/24, 9:05\u202fp.\u00a0m. - Ana: Hello\n"
        "20/1/24, 9:06\u202fp.\u00a0m. - Ben: 00000012-PHOTO.jpg (archivo adjunto)\n"
        "21/1/24, 12:07\u202fa.\u00a0m. - Ben: one\ntwo\n"
        f"21/1/24, 10:00\u202fa.\u00a0m. - Ana: Bye {MARK}<Se editó este mensaje.>\n",
    ),
    "Portuguese, iPhone": (
        "Conversa do WhatsApp com Ana.txt",
        f"[20/01/2024, 21:05:12] Ana: {MARK}As mensagens são protegidas com criptografia de ponta a ponta.\n"
        "[20/01/2024, 21:05:12] Ana: Hello\n"
        f"{MARK}[20/01/2024, 21:06:00] Ben: {MARK}<anexado: 00000012-PHOTO.jpg>\n"
        "[21/01/2024, 00:07:00] Ben: one\r\ntwo\n"
        f"[21/01/2024, 10:00:00] Ana: Bye {MARK}<Mensagem editada>\n",
    ),
    "Hindi digits, Android": (
        "Ana के साथ WhatsApp चैट.txt",
        "२०/०१/२४, ९:०५ pm - मैसेज और कॉल एंड-टू-एंड एन्क्रिप्टेड हैं।\n"
        "२०/०१/२४, ९:०५ pm - Ana: Hello\n"
        f"२०/०१/२४, ९:०६ pm - Ben: {MARK}00000012-PHOTO.jpg (फ़ाइल संलग्न है)\n"
        "२१/०१/२४, १२:०७ am - Ben: one\ntwo\n"
        f"२१/०१/२४, १०:०० am - Ana: Bye {MARK}<इस मैसेज को एडिट किया गया है>\n",
    ),
    "Arabic, iPhone": (
        "محادثة واتساب مع Ana.txt",
        f"[٢٠\u200f/١\u200f/٢٠٢٤، ٩:٠٥:١٢ م] Ana: {MARK}الرسائل والمكالمات مشفرة تمامًا بين الطرفين.\n"
        "[٢٠\u200f/١\u200f/٢٠٢٤، ٩:٠٥:١٢ م] Ana: Hello\n"
        f"{MARK}[٢٠\u200f/١\u200f/٢٠٢٤، ٩:٠٦:٠٠ م] Ben: {MARK}<المرفق: 00000012-PHOTO.jpg>\n"
        "[٢١\u200f/١\u200f/٢٠٢٤، ١٢:٠٧:٠٠ ص] Ben: one\ntwo\n"
        f"[٢١\u200f/١\u200f/٢٠٢٤، ١٠:٠٠:٠٠ ص] Ana: Bye {MARK}<تم تعديل هذه الرسالة>\n",
    ),
    "Turkish, Android": (
        "Ana ile WhatsApp Sohbeti.txt",
        "20.01.2024 21:05 - Mesajlar ve aramalar uçtan uca şifrelidir.\n"
        "20.01.2024 21:05 - Ana: Hello\n"
        f"20.01.2024 21:06 - Ben: {MARK}00000012-PHOTO.jpg (dosya ekli)\n"
        "21.01.2024 00:07 - Ben: one\ntwo\n"
        "21.01.2024 10:00 - Ana: Bye <Bu mesaj düzenlendi>\n",
    ),
    "Japanese, iPhone": (
        "WhatsApp Chat - Ana.zip",
        f"[2024/01/20 21:05:12] Ana: {MARK}メッセージと通話はエンドツーエンドで暗号化されています。\n"
        "[2024/01/20 21:05:12] Ana: Hello\n"
        f"{MARK}[2024/01/20 21:06:00] Ben: {MARK}<添付ファイル: 00000012-PHOTO.jpg>\n"
        "[2024/01/21 0:07:00] Ben: one\ntwo\n"
        f"[2024/01/21 10:00:00] Ana: Bye {MARK}<このメッセージは編集されました>\n",
    ),
    "Chinese, iPhone": (
        "WhatsApp Chat - Ana.zip",
        f"[2024/1/20 下午9:05:12] Ana: {MARK}消息和通话都进行端到端加密。\n"
        "[2024/1/20 下午9:05:12] Ana: Hello\n"
        f"{MARK}[2024/1/20 下午9:06:00] Ben: {MARK}<附件：00000012-PHOTO.jpg>\n"
        "[2024/1/21 凌晨12:07:00] Ben: one\ntwo\n"
        f"[2024/1/21 上午10:00:00] Ana: Bye {MARK}<此消息已编辑>\n",
    ),
}


@pytest.fixture
def chat(read, write):
    """Read one chat."""

    def run(*lines, name="WhatsApp Chat with Ana.txt", **options):
        return read(IMPORTER, write({name: "\n".join(lines)}) / name, **options)

    return run


@pytest.fixture
def archive(read, tmp_path):
    """Read a chat in a zip, with the files beside it."""

    def run(text, *files, name="WhatsApp Chat - Ana.zip", inside="_chat.txt"):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr(inside, text)
            for file in files:
                packed.writestr(file, "x")
        return read(IMPORTER, path)

    return run


def android(*texts, day=20):
    """Return one line for each text, a minute apart."""
    return [f"{day:02}/01/2024, 10:{minute:02} - {text}" for minute, text in enumerate(texts)]


def times(result):
    return [f"{message.sent_at:%Y-%m-%d %H:%M}" for message in result.messages]


def orders(result):
    return {message.metadata["platform"].get("date_order") for message in result.messages}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_chat_reads_the_same_in_every_language(chat, archive, language):
    name, text = LANGUAGES[language]
    result = archive(text, name=name) if name.endswith(".zip") else chat(text, name=name)
    note, hello, photo, lines, bye = result.messages
    assert result.skipped == []
    assert (note.kind, note.author.account_id, MARK in note.body) == ("system", "", False)
    assert [m.author.account_id for m in (hello, photo, lines, bye)] == ["Ana", "Ben", "Ben", "Ana"]
    assert [m.body for m in (hello, photo, lines, bye)] == ["Hello", "", "one\ntwo", "Bye"]
    assert photo.attachments == [{"type": "file", "name": "00000012-PHOTO.jpg", "url": "00000012-PHOTO.jpg"}]
    assert [m.metadata["platform"].get("history_lost") for m in (lines, bye)] == [None, True]
    assert times(result)[1:] == [
        "2024-01-20 21:05",
        "2024-01-20 21:06",
        "2024-01-21 00:07",
        "2024-01-21 10:00",
    ]
    assert (hello.room.name, hello.room.kind, hello.room.visibility) == ("Ana", "dm", "members")
    assert [member.author.name for member in hello.room.members] == ["Ana", "Ben"]
    assert orders(result) == {None}


def test_a_message_keeps_what_the_export_says(chat):
    result = chat("20/01/24, 21:05:07 - Ana: hi", "21/01/24, 21:05:07 - Ben: ho")
    message = result.messages[0]
    assert (message.platform, message.precision, message.order, message.synthetic_id) == (
        "whatsapp",
        "s",
        1,
        True,
    )
    assert message.sent_at == datetime(2024, 1, 20, 21, 5, 7, tzinfo=UTC)
    assert message.metadata == {"platform": {"time_zone": "assumed UTC"}}
    assert (message.raw, message.where) == ("Ana: hi", "WhatsApp Chat with Ana.txt line 1")


def test_times_are_in_the_named_zone_and_the_repeated_hour_does_not_go_back(chat):
    result = chat(
        "27/10/2024, 02:50 - Ana: summer",
        "27/10/2024, 02:10 - Ben: winter",
        "28/10/2024, 12:00 - Ben: later",
        zone="Europe/Berlin",
    )
    assert times(result) == ["2024-10-27 00:50", "2024-10-27 01:10", "2024-10-28 11:00"]
    assert result.messages[0].metadata["platform"]["time_zone"] == "Europe/Berlin"


# The order of dates


@pytest.mark.parametrize(
    ("dates", "first", "assumed"),
    [
        (["05/06/24", "13/06/24"], "2024-06-05", None),  # a day above 12
        (["05/06/24", "05/13/24"], "2024-05-06", None),
        (["2024-05-06", "2024-06-05"], "2024-05-06", None),
        (["24. 1. 20.", "24. 1. 21.", "24. 1. 22."], "2024-01-20", None),  # the last number is the day
        (["28/02/24", "01/03/24"], "2024-02-28", None),
        (["02/03/24", "01/04/24"], "2024-03-02", None),  # with the month first, time would go back
        (["03/02/24", "04/01/24"], "2024-03-02", None),
        (["05/06/24", "05/06/24"], "2024-06-05", "assumed"),
        (["05/06/24", "06/06/24", "07/06/24"], "2024-06-05", "assumed"),
        (
            ["05/06/24", "05/07/24", "05/08/24"],
            "2024-05-06",
            "assumed",
        ),  # the second number changes like a day
        (["5.6.24", "5.6.24"], "2024-06-05", "assumed"),
    ],
)
def test_the_whole_file_tells_the_order_of_dates(chat, dates, first, assumed):
    result = chat(*(f"{date}, 10:00 - Ana: {number}" for number, date in enumerate(dates)))
    assert result.skipped == []
    assert times(result)[0] == f"{first} 10:00"
    assert orders(result) == {assumed}


def test_an_american_clock_puts_the_month_first_and_other_12_hour_clocks_the_day(chat):
    assert times(chat("5/6/24, 9:05\u202fPM - Ana: x")) == ["2024-05-06 21:05"]
    assert times(chat("5/6/24, 9:05\u202fpm - Ana: x")) == ["2024-06-05 21:05"]
    assert times(chat("05/06/24, 9:05\u202fPM - Ana: x")) == ["2024-06-05 21:05"]


def test_midnight_and_noon_of_a_12_hour_clock(chat):
    lines = [f"20/01/24, {time} - Ana: x" for time in ("12:00 a.m.", "11:59 am", "12:01 p. m.", "1:00 PM")]
    assert times(chat(*lines)) == [f"2024-01-20 {time}" for time in ("00:00", "11:59", "12:01", "13:00")]


def test_times_with_dots_and_words_and_a_thai_year(chat):
    assert times(chat("20.1.2024 klo 21.05 - Ana: x")) == ["2024-01-20 21:05"]
    assert times(chat("20/1/2567 21:05 - Ana: x")) == ["2024-01-20 21:05"]


def test_unknown_words_beside_all_times_are_marked_unless_an_hour_shows_24_hours(chat):
    def half_day(*times):
        result = chat(*(f"20/01/24, {time} - Ana: x" for time in times))
        return {message.metadata["platform"].get("half_day") for message in result.messages}

    assert half_day("9:05 xyz", "10:05 zyx") == {"assumed"}
    assert half_day("9:05 klo", "21:05 klo") == {None}
    assert half_day("9:05 pm", "10:05 am") == {None}
    assert half_day("9:05", "10:05") == {None}


def test_a_date_that_does_not_exist_is_skipped_with_its_line(chat):
    result = chat(*android("Ana: a"), "99/99/2024, 10:00 - Ana: lost", "its second line", *android("Ana: b"))
    assert [m.body for m in result.messages] == ["a", "b"]
    assert [(s.where, s.reason) for s in result.skipped] == [("WhatsApp Chat with Ana.txt line 2", "no time")]


# Lines


def test_a_pasted_line_of_another_shape_stays_in_its_message(chat):
    pasted = "[21:05, 20/1/2024] Cleo: I quit"
    result = chat(*android("Ana: look:"), pasted, "20/01/24 10:00 - Cleo: me too", *android("Ben: oh"))
    assert [m.author.name for m in result.messages] == ["Ana", "Ben"]
    assert result.messages[0].body == f"look:\n{pasted}\n20/01/24 10:00 - Cleo: me too"


def test_lines_without_a_sender_are_of_the_app(chat):
    system = [
        "Ana created group “Plan: B”",
        'Ana changed the subject from "A: b" to "C"',
        "Ana changed the group description to: never: mind",
        "+49 170 1234567 left",
    ]
    result = chat(*android("Ana: hi", "Ben: ho", "Cleo: hu", *system))
    assert [m.body for m in result.messages if m.kind == "system"] == system
    assert {m.author.name for m in result.messages if m.kind == "message"} == {"Ana", "Ben", "Cleo"}


def test_a_long_name_that_begins_like_another_is_a_name(chat):
    result = chat(*android("Ana: hi", "Ana María de la Cruz: ho"))
    assert [m.author.name for m in result.messages] == ["Ana", "Ana María de la Cruz"]


def test_names_and_texts_with_colons_and_empty_texts(chat):
    result = chat(*android("Ana: note: this", "Ana Maria: hi", "Ana:", "Ana:.", "Ben: "))
    assert [(m.author.name, m.body) for m in result.messages] == [
        ("Ana", "note: this"),
        ("Ana Maria", "hi"),
        ("Ana", ""),
        ("Ana", "."),
        ("Ben", ""),
    ]


def test_names_stay_as_they_are_and_marks_around_phone_numbers_go(chat):
    names = ["שרה כהן", "👩\u200d🚀 Zoë", "می\u200cنا", "~\u202fDora", "\u202a+49\xa0170\xa01234567\u202c"]
    result = chat(*android(*(f"{name}: x" for name in names)))
    assert [m.author.account_id for m in result.messages] == [*names[:4], "+49 170 1234567"]
    assert [m.author.name for m in result.messages] == [m.author.account_id for m in result.messages]


def test_an_iphone_names_the_group_or_the_person_before_lines_of_the_app(archive):
    lines = [
        f"Harbour: {MARK}Messages and calls are end-to-end encrypted.",
        f"Harbour: {MARK}Ana created this group",
        "Ana: hi",
        f"Ben: {MARK}Ben joined using a group link.",
        f"Ben: {MARK}image omitted",
    ]
    text = "\n".join(f"[20.01.24, 21:05:1{number}] {line}" for number, line in enumerate(lines))
    for name, room in (("WhatsApp Chat - Harbour.zip", "Harbour"), ("export.zip", "Harbour")):
        result = archive(text, name=name)
        assert [m.kind for m in result.messages] == ["system", "system", "message", "system", "message"]
        assert result.messages[4].attachments == [{"type": "notice", "name": "image omitted"}]
        assert (result.messages[0].room.name, result.messages[0].room.kind) == (room, "group_dm")
        assert result.messages[0].room.members == ()


def test_text_before_the_first_date_is_reported_once(chat):
    result = chat("Exported on Monday", "by Ana", *android("Ana: hi"))
    assert [s.reason for s in result.skipped] == ["text before the first date"]
    assert [m.body for m in result.messages] == ["hi"]


def test_a_file_without_any_date_is_no_chat(read, write):
    result = read(IMPORTER, write({"a.txt": "hello\nthere"}) / "a.txt")
    assert (result.messages, result.reasons) == ([], ["not a WhatsApp chat"])


# Contents


@pytest.mark.parametrize(
    ("text", "body", "attachment"),
    [
        ("<Media omitted>", "", {"type": "media", "name": "Media omitted", "missing": True}),
        ("<メディアは含まれていません>\nlook", "look", {"type": "media", "name": "メディアは含まれていません", "missing": True}),
        ("IMG-20240120-WA0001.jpg (any words)\nlook", "look", {"type": "file", "name": "IMG-20240120-WA0001.jpg"}),
        (f"look {MARK}<attached: 1-PHOTO.jpg>", "look", {"type": "file", "name": "1-PHOTO.jpg"}),
        (f"plan.pdf • {MARK}2 pages {MARK}<attached: 1-plan.pdf>", "", {"name": "1-plan.pdf", "title": "plan.pdf"}),
        (f"plan.pdf • {MARK}2 pages {MARK}document omitted", "", {"name": "plan.pdf", "missing": True}),
        ("location: https://maps.google.com/?q=51.5,-0.25", "", {"type": "location", "text": "51.5, -0.25"}),
        (f"{MARK}Missed voice call", "", {"type": "notice", "name": "Missed voice call"}),
    ],
)  # fmt: skip
def test_what_the_app_wrote_becomes_an_attachment(chat, text, body, attachment):
    message = chat(*android(f"Ana: {text}")).only
    assert (message.author.name, message.body) == ("Ana", body)
    assert len(message.attachments) == 1
    assert attachment.items() <= message.attachments[0].items()


@pytest.mark.parametrize(
    "text",
    [
        "see notes.txt (draft)",
        "a < b > c",
        "<b>bold</b>",
        "<3",
        "so <sad> today",
        "great <not really>",
        "two <This was edited",
    ],
)
def test_what_a_person_wrote_stays_text(chat, text):
    message = chat(*android(f"Ana: {text}")).only
    assert (message.body, message.attachments, message.metadata["platform"].get("history_lost")) == (
        text,
        [],
        None,
    )


def test_a_file_in_the_archive_is_known_without_words(archive):
    text = "20/01/2024, 10:00 - Ana: plan.pdf (xyzzy plugh)\n"
    assert archive(text, "plan.pdf").only.attachments == [
        {"type": "file", "name": "plan.pdf", "url": "plan.pdf"}
    ]
    assert archive(text).only.body == "plan.pdf (xyzzy plugh)"


def test_deleted_messages_keep_their_place(chat):
    texts = [
        "This message was deleted",
        f"{MARK}You deleted this message.",
        "Diese Nachricht wurde gelöscht.",
    ]
    result = chat(*android(*(f"Ana: {text}" for text in texts), "Ana: This message was deleted yesterday"))
    assert [(m.deleted, m.body) for m in result.messages] == [
        (True, ""),
        (True, ""),
        (True, ""),
        (False, "This message was deleted yesterday"),
    ]


def test_a_poll_is_text(chat):
    poll = f"{MARK}POLL:\nWhen?\n{MARK}OPTION: Now ({MARK}3 votes)\n{MARK}OPTION: Never ({MARK}0 votes)"
    message = chat(*android(f"Ana: {poll}")).only
    assert message.body == "POLL:\nWhen?\nOPTION: Now (3 votes)\nOPTION: Never (0 votes)"
    assert message.attachments == []


def test_marked_mentions_of_authors_are_mentions(chat):
    said = "Ana: @\u2068Ben\u2069, @\u2068~Dora\u2069 and @\u2068Zed\u2069: come"
    result = chat(*android(said, "Ben: yes", "~\u202fDora: no", "Ana: @Ben"))
    assert result.messages[0].mentions == ["Ben", "~\u202fDora"]
    assert result.messages[0].body == "@Ben, @~Dora and @Zed: come"
    assert result.messages[3].mentions == []


# Rooms


def test_only_two_people_without_signs_of_a_group_are_a_direct_room(chat):
    def kind(*texts, name="WhatsApp Chat with Ana.txt"):
        return chat(*android(*texts), name=name).messages[0].room.kind

    assert kind("Ana: a", "Ben: b") == "dm"
    assert kind("Ana: a", "Ben: b", name="chat.txt") == "dm"
    assert kind("Ana: a") == "dm"
    assert kind("Ben: a") is None
    assert kind("Ana: a", name="chat.txt") is None
    assert kind("Ana: a", "Ben: b", "Cleo: c") == "group_dm"
    assert kind("Ana: a", "Ben: b", name="WhatsApp Chat with Harbour.txt") == "group_dm"
    assert kind("Ana: a", "Ben: b", name="Bisedë në WhatsApp me Ana.txt") == "dm"
    assert kind("Ana: a", "Ben: b", name="Bisedë në WhatsApp me Harbour.txt") == "group_dm"
    assert kind("Ana created group “Us”", "Ana: a", "Ben: b", name="chat.txt") == "group_dm"
    assert kind("+49 170 1234567 was added", "Ana: a", "Ben: b", name="chat.txt") == "group_dm"
    assert (
        kind("Your security code with +49 170 1234567 changed", "+49 170 1234567: a", "Ben: b", name="c.txt")
        == "dm"
    )


def test_chats_of_different_people_with_a_contact_of_one_name_stay_apart(chat):
    rooms = {chat(*android("Ana: a", f"{me}: b")).messages[0].room.external_id for me in ("Ben", "Cleo")}
    assert len(rooms) == 2
    early = chat(*android("Ben: b")).only.room.external_id
    assert early in rooms


def test_nobody_gets_into_a_direct_room_by_the_name_of_a_group(chat):
    direct = chat(*android("Ana: a", "Ben: b")).messages[0].room.external_id
    for name in ("Ana|Ben", "direct:Ana|Ben"):
        group = chat(*android("Cleo: c", "Dora: d", "Eve: e"), name=f"WhatsApp Chat with {name}.txt")
        assert group.messages[0].room.name == name
        assert group.messages[0].room.external_id != direct
    sides = [("Ana|Ben", "Cleo"), ("Ana", "Ben|Cleo")]
    rooms = {
        chat(*android(f"{one}: a", f"{two}: b"), name="c.txt").messages[0].room.external_id
        for one, two in sides
    }
    assert len(rooms) == 2


def test_chats_without_a_name_stay_apart(chat):
    rooms = {
        chat(*android(f"{first}: a", "Ben: b", "Dora: d"), name="_chat.txt").messages[0].room.external_id
        for first in ("Ana", "Cleo")
    }
    assert len(rooms) == 2


def test_a_workspace_keeps_groups_of_one_name_apart(chat):
    lines = android("Ana: a", "Ben: b", "Cleo: c")
    plain, named = (
        chat(*lines, name="WhatsApp Chat with Family.txt", workspace=space).messages[0].room
        for space in ("", "Kim")
    )
    assert (plain.external_id, named.external_id) == ("group:Family", "Kim/group:Family")
    assert named.workspace == "Kim"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("WhatsApp Chat with Ana.txt", "Ana"),
        ("WhatsApp Chat with Ana (2).txt", "Ana"),
        ("Discussion WhatsApp avec Équipe Été.txt", "Équipe Été"),
        ("WhatsApp Chat - Team – North.zip", "Team – North"),
        ("WhatsApp-chat met Ana.txt", "Ana"),
        ("_chat.txt", ""),
        ("Notes on WhatsApp with Ana.txt", ""),
    ],
)
def test_the_name_of_a_file_names_the_chat(name, title):
    assert chat_title(name) == title


def test_a_chat_attached_to_a_chat_is_not_imported(read, write):
    text = "20/01/2024, 10:00 - Ana: WhatsApp Chat with Cleo.txt (file attached)\n"
    inner = "20/01/2024, 09:00 - Cleo: secret\n"
    outer = text + "20/01/2024, 10:01 - Ben: oh\n"
    result = read(
        IMPORTER, write({"WhatsApp Chat with Ana.txt": outer, "WhatsApp Chat with Cleo.txt": inner})
    )
    assert [m.author.name for m in result.messages] == ["Ana", "Ben"]
    assert [(s.where, s.reason) for s in result.skipped] == [
        ("WhatsApp Chat with Cleo.txt", "export among attachments")
    ]


# Importing again


def ids(result):
    return [message.external_id for message in result.messages]


def test_a_longer_export_adds_only_what_is_new(chat):
    lines = android("Ana: ok", "Ben: ok", "Ana: ok") + ["20/01/2024, 10:02 - Ana: ok"] * 2
    short, long = chat(*lines), chat(*lines, *android("Cleo joined", "Ben: more", day=21))
    assert len(set(ids(short))) == 5
    assert ids(long)[:5] == ids(short)
    assert len(set(ids(long))) == 7
    assert {m.room.external_id for m in long.messages} == {m.room.external_id for m in short.messages}


def test_an_export_that_begins_later_keeps_its_ids(chat):
    lines = android("Ana: a", "Ben: b", "Ana: c")
    assert ids(chat(*lines[1:])) == ids(chat(*lines))[1:]


def test_ids_do_not_depend_on_files_or_on_the_order_of_dates_or_on_the_zone(chat):
    texts = ("Ana: <Media omitted>\nlook", "Ana: IMG-20240120-WA0001.jpg (file attached)\nlook")
    without, with_files = (chat(*android(text)) for text in texts)
    assert ids(without) == ids(with_files)
    ambiguous = chat("05/06/24, 10:00 - Ana: a")
    american = chat("05/06/24, 10:00 - Ana: a", "05/13/24, 10:00 - Ana: b", zone="Asia/Tokyo")
    assert ambiguous.only.sent_at.month == 6
    assert american.messages[0].sent_at.month == 5
    assert ids(ambiguous)[0] == ids(american)[0]
    assert ids(chat("2024-06-05, 10:00 - Ana: a")) == ids(ambiguous)


# Recognising


@pytest.mark.parametrize(
    "text",
    [
        "[2024-01-20 10:00:00] <ana> ben: hi\n",
        "[2024-01-20 10:00:00] * ana says: hi\n[2024-01-20 10:00:01] ana: x\n",
        "20/01/2024, 10:00 - no sender here\n",
        "Minutes\n20/01/2024, 10:00 - Ana: hi\n",
        "2024-01-20 10:00:00 INFO server: started\n",
        "",
    ],
)
def test_other_texts_are_no_chats(write, text):
    with open_export(write({"a.txt": text})) as source:
        assert not IMPORTER.recognises(source)


def test_many_files_before_the_chat_do_not_hide_it(tmp_path):
    path = tmp_path / "WhatsApp Chat - Ana.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for number in range(300):
            packed.writestr(f"0000{number}-PHOTO.jpg", "x")
        packed.writestr("_chat.txt", f"\ufeff{MARK}[20.01.24, 21:05:12] Ana: hi\n")
    with open_export(path) as source:
        assert IMPORTER.recognises(source)
