import io
import time
from datetime import UTC, datetime

import pytest

from roomlore.domain.ports import ReadOptions
from roomlore.importers.mail.mbox import IMPORTER, MAX_MAIL_BYTES
from roomlore.importers.reading.export import open_export

FROM_LINE = "From ana@example.com Sat Jan 20 21:05:00 2024"
HEADERS = {
    "From": "Ana Example <Ana@Example.com>",
    "Date": "Sat, 20 Jan 2024 21:05:07 +0100",
    "Subject": "Tides",
    "Message-ID": "<1@example.com>",
}


def mail(text="hello", *, from_line=FROM_LINE, **headers):
    """Return one mail. A header that is None is left out."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in (HEADERS | named).items() if value is not None]
    return "\n".join([from_line, *lines, "", text, "", ""])


def reply(number, **headers):
    return mail(
        f"text {number}", **{"Message-ID": f"<{number}@example.com>", "Subject": "Re: Tides", **headers}
    )


@pytest.fixture
def archive(read, write):
    """Read one file."""

    def run(*mails, name="list.mbox", **options):
        whole = b"".join(one if isinstance(one, bytes) else one.encode() for one in mails)
        return read(IMPORTER, write({name: whole}) / name, **options)

    return run


def test_a_mail_keeps_what_the_archive_says(archive):
    message = archive(mail("hello\nthere", List_Id="Talk of tides <Tides.Example.org>")).only
    assert (message.platform, message.external_id, message.synthetic_id) == ("mbox", "1@example.com", False)
    assert (message.author.account_id, message.author.name) == ("ana@example.com", "Ana Example")
    assert message.sent_at == datetime(2024, 1, 20, 20, 5, 7, tzinfo=UTC)
    assert (message.body, message.precision, message.order) == ("Tides\n\nhello\nthere", "s", 1)
    assert message.metadata == {"platform": {"subject": "Tides"}}
    assert (message.raw["from"], message.where) == (HEADERS["From"], "list.mbox message 1")
    room = message.room
    assert (room.external_id, room.name, room.topic) == ("list:tides.example.org", "tides", "Talk of tides")
    assert (room.kind, room.visibility, room.workspace, room.members) == ("channel", None, "example.org", ())


# Dividing


def test_mails_are_divided_only_before_headers_and_after_an_empty_line(archive):
    text = (
        "He sent:\nFrom b@x.org Sat Jan 20 21:05:00 2024\nSubject: pasted\n\n"
        "From here on:\nFrom 10:30 in 2024 it rains.\n\nFrom Monday at 10:30 in 2024\nit rains\n\nFrom: me\n"
    )
    result = archive(mail(text), reply(2))
    assert [m.external_id for m in result.messages] == ["1@example.com", "2@example.com"]
    assert result.messages[0].body == f"Tides\n\n{text}".rstrip()


@pytest.mark.parametrize(
    "line",
    [
        "From ana at example.com  Sat Jan 20 21:05:00 2024",
        "From - Sat Jan 20 21:05:00 2024",
        "From 1789@xxx Sat Jan 20 21:05:00 +0000 2024",
        "From -",
        "From ",
    ],
)
def test_the_lines_of_many_programs_divide(archive, line):
    assert len(archive(mail(from_line=line), reply(2, from_line=line)).messages) == 2


def test_escaped_from_lines_lose_their_mark(archive):
    text = ">From the north\n>>From the south\n> From the west"
    assert archive(mail(text)).only.body == "Tides\n\nFrom the north\n> From the south\n> From the west"


def test_windows_line_ends_and_a_byte_order_mark(archive):
    data = (mail("one\ntwo") + reply(2)).replace("\n", "\r\n")
    result = archive(b"\xef\xbb\xbf" + data.encode())
    assert [m.body for m in result.messages] == ["Tides\n\none\ntwo", "Re: Tides\n\ntext 2"]


# Authors


@pytest.mark.parametrize(
    ("written", "account", "name"),
    [
        ("ana at example.com (Ana Example)", "ana@example.com", "Ana Example"),
        ("ANA@example.com", "ana@example.com", "ana@example.com"),
        ('"Example, Ana" <ana@example.com>', "ana@example.com", "Example, Ana"),
        ("=?utf-8?B?w4luZQ==?= =?iso-8859-1?Q?_B=E9?= <ana@example.com>", "ana@example.com", "Éne Bé"),
        ("ana@example.com (=?utf-8?q?=C3=89ne?=)", "ana@example.com", "Éne"),
        ("=?x-no-such?q?=C3=89ne?= <ana@example.com>", "ana@example.com", "Éne"),
        ("=?utf-8?b?!!!?= <ana@example.com>", "ana@example.com", "=?utf-8?b?!!!?="),
        ("=?utf-8?b?x?= <ana@example.com>", "ana@example.com", "=?utf-8?b?x?="),
        ("Éne <ana@example.com>", "ana@example.com", "Éne"),
        ("Ana Example ana@example.com", "ana@example.com", "Ana Example"),
        ("שרה <ana@example.com>", "ana@example.com", "שרה"),
    ],
)
def test_the_address_is_the_account(archive, written, account, name):
    author = archive(mail(From=written)).only.author
    assert (author.account_id, author.name, author.persona) == (account, name, "")


def test_a_list_that_puts_its_own_address_keeps_the_authors_apart(archive):
    post = {"List_Post": "<mailto:tides@example.org>", "List_Id": "<tides.example.org>"}
    result = archive(
        mail(From="Ana via Tides <tides@example.org>", **post),
        reply(2, From="'Ben' via Tides <tides@example.org>", **post),
        reply(3, From="Cleo via Tides <tides@example.org>", X_Original_From="Cleo <c@example.com>", **post),
        reply(4, From="Dora via mobile <dora@example.com>", **post),
    )
    assert [(m.author.account_id, m.author.name, m.author.persona) for m in result.messages] == [
        ("tides@example.org", "Ana", "Ana"),
        ("tides@example.org", "Ben", "Ben"),
        ("c@example.com", "Cleo", ""),
        ("dora@example.com", "Dora via mobile", ""),
    ]


# Threads


def test_replies_and_threads_come_from_headers(archive):
    result = archive(
        mail(),
        reply(2, In_Reply_To="<1@example.com>"),
        reply(3, References="<1@example.com>\n\t<2@example.com>"),
        reply(4, In_Reply_To="Ana's mail of Monday <2@example.com>", References="<1@example.com> <9@x>"),
        reply(5),
        reply(6, In_Reply_To="<6@example.com>"),
    )
    assert [(m.reply_to, m.thread_root) for m in result.messages] == [
        (None, None),
        ("1@example.com", None),
        ("2@example.com", "1@example.com"),
        ("2@example.com", "1@example.com"),
        (None, None),
        (None, None),
    ]
    assert [m.body.startswith("Re: Tides") for m in result.messages[1:5]] == [False, False, False, True]
    assert {m.metadata["platform"]["subject"] for m in result.messages[1:]} == {"Re: Tides"}


def test_a_mail_without_an_id_gets_one_of_its_content(archive):
    lines = [mail(Message_ID=None, **{"Message-ID": None}), mail("other", **{"Message-ID": None})]
    short, long = archive(*lines), archive(*lines, reply(3))
    assert all(m.synthetic_id for m in short.messages)
    assert [m.external_id for m in long.messages[:2]] == [m.external_id for m in short.messages]
    assert len({m.external_id for m in long.messages}) == 3


def test_the_same_id_twice_is_reported(archive):
    result = archive(mail(), mail("a copy"))
    assert [m.body for m in result.messages] == ["Tides\n\nhello"]
    assert [(s.where, s.reason) for s in result.skipped] == [("list.mbox message 2", "message id twice")]


def test_long_ids_are_shortened_alike_everywhere(archive):
    long = f"<{'x' * 300}@example.com>"
    result = archive(mail(**{"Message-ID": long}), reply(2, In_Reply_To=long))
    assert result.messages[1].reply_to == result.messages[0].external_id
    assert len(result.messages[0].external_id) <= 255


# Times


def test_zones_are_stated_or_assumed(archive):
    def sent(date, **options):
        message = archive(mail(Date=date), **options).only
        return f"{message.sent_at:%H:%M}", message.metadata["platform"].get("time_zone")

    assert sent("Sat, 20 Jan 2024 21:05:00 -0500") == ("02:05", None)
    assert sent("20 Jan 2024 21:05:00 EST") == ("02:05", None)
    assert sent("Sat, 20 Jan 2024 21:05:00 -0000") == ("21:05", None)
    assert sent("Sat, 20 Jan 2024 21:05:00") == ("21:05", "assumed UTC")
    assert sent("Sat, 20 Jan 2024 21:05:00", zone="Europe/Berlin") == ("20:05", "Europe/Berlin")


def test_without_a_readable_date_the_delivery_counts(archive):
    for date in (None, "yesterday", "Sat, 99 Jan 2024 21:05:00 +0000"):
        message = archive(mail(Date=date)).only
        assert message.sent_at == datetime(2024, 1, 20, 21, 5, tzinfo=UTC)


def test_mails_without_author_or_time_are_skipped_and_the_others_read(archive):
    result = archive(
        mail(From=None), mail(Date=None, from_line="From -"), mail(From=f"<{'a' * 300}@x.org>"), reply(4)
    )
    assert result.reasons == ["no author", "no time", "id too long"]
    assert [m.external_id for m in result.messages] == ["4@example.com"]


# Texts


def parts(*pieces, kind="mixed", boundary="b"):
    """Return the headers and the text of a mail in parts."""
    text = "".join(f"--{boundary}\n{piece}\n" for piece in pieces)
    return {
        "text": f"This is a mail in parts.\n{text}--{boundary}--\n",
        "Content-Type": f'multipart/{kind}; boundary="{boundary}"',
    }


PLAIN = "Content-Type: text/plain; charset=utf-8\n\nplain é"
PAGE = "Content-Type: text/html\n\n<p>page</p>"
PICTURE = (
    "Content-Type: image/png; name=a.png\nContent-Disposition: attachment; filename*=utf-8''%C3%A9.png\n\nx"
)


def text_of(message):
    return message.body.removeprefix("Tides").strip("\n")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (parts(PLAIN, PAGE, kind="alternative"), "plain é"),
        (parts(PAGE, PLAIN, kind="alternative"), "plain é"),
        (parts(PAGE, kind="alternative"), "page"),
        (parts("Content-Type: text/plain\n\n", PAGE, kind="alternative"), "page"),
        (parts(PLAIN, "\nfooter of the list"), "plain é\n\nfooter of the list"),
        (parts(PLAIN, boundary="b--b"), "plain é"),
        ({"text": "not divided", "Content-Type": "multipart/mixed; boundary=b"}, "not divided"),
        ({"text": "no boundary", "Content-Type": "multipart/mixed"}, "no boundary"),
    ],
)
def test_plain_text_is_preferred(archive, pieces, text):
    message = archive(mail(**pieces)).only
    assert (text_of(message), message.attachments) == (text, [])


def test_a_boundary_that_begins_like_another_divides_nothing(archive):
    inner = parts(PLAIN, PAGE, kind="alternative", boundary="b1")
    piece = f"Content-Type: {inner['Content-Type']}\n\n{inner['text']}"
    message = archive(mail(**parts(piece, PICTURE))).only
    assert text_of(message) == "plain é"
    assert message.attachments == [{"type": "image/png", "name": "é.png"}]


def test_attachments_have_name_and_type_and_a_text_file_is_one(archive):
    note = "Content-Type: text/plain\nContent-Disposition: attachment; filename=note.txt\n\nsecret"
    signature = "Content-Type: application/pgp-signature\n\nx"
    message = archive(mail(**parts(PLAIN, note, PICTURE, signature))).only
    assert message.attachments == [
        {"type": "text/plain", "name": "note.txt"},
        {"type": "image/png", "name": "é.png"},
        {"type": "application/pgp-signature"},
    ]
    assert "secret" not in message.body


def test_the_files_of_an_alternative_that_is_not_chosen_are_kept(archive):
    page = parts(PAGE, PICTURE, boundary="b1")
    piece = f"Content-Type: {page['Content-Type']}\n\n{page['text']}"
    message = archive(mail(**parts(PLAIN, piece, kind="alternative"))).only
    assert (text_of(message), message.attachments) == ("plain é", [{"type": "image/png", "name": "é.png"}])


def test_the_parts_of_a_digest_are_mails(archive):
    message = archive(mail(**parts("\nFrom: b@x.org\nSubject: Old\n\ntheir words", kind="digest"))).only
    assert message.attachments == [
        {"type": "forward", "author": "b@x.org", "title": "Old", "text": "their words"}
    ]


def test_a_text_without_an_empty_line_before_it_is_kept(archive):
    lines = mail("").rstrip()
    assert text_of(archive(f"{lines}\nit rains in Rome\n\nand here\n").only) == "it rains in Rome\n\nand here"


def test_a_mail_inside_a_mail_is_a_forward(archive):
    inner = "Content-Type: message/rfc822\n\nFrom: Ben <b@x.org>\nSubject: Old\n\ntheir words"
    message = archive(mail(**parts(PLAIN, inner))).only
    assert text_of(message) == "plain é"
    assert message.attachments == [
        {"type": "forward", "author": "Ben <b@x.org>", "title": "Old", "text": "their words"}
    ]


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("iso-8859-1 8bit", b"caf\xe9 \x93x\x94", "café “x”"),
        ("utf-8 8bit", b"caf\xe9", "café"),
        ("us-ascii 8bit", "café".encode(), "café"),
        ("x-unknown 8bit", "café".encode(), "café"),
        ("unicode_escape 8bit", b"\\x41", "\\x41"),
        ("base64 8bit", b"abc", "abc"),
        ("koi8-r 8bit", "мир".encode("koi8-r"), "мир"),
        ("iso-2022-jp 7bit", "海".encode("iso-2022-jp"), "海"),
        ("utf-8 quoted-printable", b"caf=C3=A9=\n!", "café!"),
        ("utf-8 base64", b"Y2Fm\nw6k", "café"),
        ("utf-8 base64", b"Y2Fmw6kx=\nQ", "café1"),
        ("utf-8 x-unknown", b"abc", "abc"),
    ],
)
def test_character_sets_are_read_even_if_wrong_or_unknown(archive, encoding, data, text):
    charset, transfer = encoding.split()
    head = mail(
        "", **{"Content-Type": f"text/plain; charset={charset}", "Content-Transfer-Encoding": transfer}
    )
    assert text_of(archive(head.rstrip().encode() + b"\n\n" + data + b"\n").only) == text


def test_quoted_lines_stay_quoted_and_signatures_stay(archive):
    text = "On Monday, Ben wrote:\n>a\n>> b\n> > > c\n>\n\nYes.\n-- \nAna"
    assert text_of(archive(mail(text)).only) == (
        "On Monday, Ben wrote:\n> a\n> > b\n> > > c\n> \n\nYes.\n--\nAna"
    )


def test_a_page_becomes_text_with_quoted_lines(archive):
    page = (
        "<html><head><title>t</title><style>p {}</style></head><!-- <p>no</p> --><body><p>One &amp;\n two</p>"
        "<script>if (a < b) {}</script>Three<br>four<blockquote>his words<p>more</p></blockquote><div>own</div>"
    )
    assert text_of(archive(mail(page, **{"Content-Type": "text/html"})).only) == (
        "One & two\nThree\nfour\n> his words\n> more\n\nown"
    )


# Rooms


def test_a_mailbox_without_a_list_is_for_those_who_write(archive):
    room = archive(mail(), name="Inbox of Ana.mbox").only.room
    assert (room.external_id, room.name, room.kind, room.visibility) == (
        "file:Inbox of Ana",
        "Inbox of Ana",
        "ad_hoc",
        "members",
    )


def test_a_private_mail_does_not_get_into_the_room_of_a_list(archive):
    result = archive(mail(List_Id="<tides.example.org>"), reply(2), name="all.mbox")
    assert [m.room.external_id for m in result.messages] == ["list:tides.example.org", "file:all"]


def test_a_mail_cannot_name_the_room_of_a_file_as_its_list(archive):
    result = archive(mail(List_Id="<file:all>"), reply(2), name="all.mbox")
    assert len({m.room.external_id for m in result.messages}) == 2


def test_monthly_archives_belong_to_the_room_of_their_folder(read, write):
    result = read(IMPORTER, write({"tides/2024-January.txt": mail(), "tides/2024-02.txt": reply(2)}))
    assert {m.room.name for m in result.messages} == {"tides"}
    assert len(result.messages) == 2


def test_a_workspace_may_be_named(archive):
    assert archive(mail(), workspace="Kim").only.room.external_id == "Kim/file:list"
    assert archive(mail(List_Id="<a.b.org>"), workspace="Kim").only.room.workspace == "Kim"


# Damage and size


def test_a_huge_mail_keeps_its_beginning_and_the_next_mail_is_read(archive):
    file = (
        "Content-Type: video/mp4\nContent-Disposition: attachment; filename=v.mp4\n\n" + "A" * 70_000 + "\n"
    )
    huge = parts(PLAIN, file + "B" * 76 + ("\n" + "B" * 76) * (MAX_MAIL_BYTES // 70))
    result = archive(mail(**huge), reply(2))
    assert [m.external_id for m in result.messages] == ["1@example.com", "2@example.com"]
    assert text_of(result.messages[0]) == "plain é"
    assert result.messages[0].attachments == [{"type": "video/mp4", "name": "v.mp4"}]
    assert [m.metadata["platform"].get("cut") for m in result.messages] == [True, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        {
            "text": "".join(
                f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n\n" for n in range(5000)
            ),
            "Content-Type": "multipart/mixed; boundary=b0",
        },
        {"text": "--b\n" * 1_000_000, "Content-Type": "multipart/mixed; boundary=b"},
        {"text": "<" * 4_000_000, "Content-Type": "text/html"},
        {"text": "<!--" * 1_000_000, "Content-Type": "text/html"},
        {"text": "<blockquote>x" * 300_000, "Content-Type": "text/html"},
        {"text": ">" * 4_000_000},
        {"text": "> " * 2_000_000},
        {"text": "x", "Subject": "=?utf-8?q?a?= " * 100_000},
        {"text": "x", "References": "<" * 1_000_000},
        {"text": "x", "From": "a" * 100_000 + " at " * 100_000},
    ],
)
def test_hostile_mails_take_little_time(archive, pieces):
    started = time.perf_counter()
    result = archive(mail(**pieces), reply(2))
    assert result.messages[-1].external_id == "2@example.com"
    assert time.perf_counter() - started < 10


def test_a_file_that_ends_early_keeps_the_mails_before(write, monkeypatch):
    path = write({"list.mbox": mail() + reply(2)}) / "list.mbox"

    class Torn(io.BytesIO):
        def readline(self, size=-1):
            if self.tell() > 200:
                raise OSError(5, "Input/output error")
            return super().readline(size)

    data = path.read_bytes()
    with open_export(path) as source:
        monkeypatch.setattr(source, "open", lambda _: Torn(data))
        items = list(IMPORTER.read(source, ReadOptions()))
    assert [item.reason for item in items] == ["unreadable file"]


@pytest.mark.parametrize(
    "text",
    [
        "From Monday on it rains.\nDate: tomorrow\n\n",
        "From ana Sat Jan 20 21:05:00 2024\nhello\n",
        "From ana Sat Jan 20 21:05:00 2024\nNote: x\n\n",
        "From: Ana <a@x.org>\nDate: Sat, 20 Jan 2024 21:05:00 +0000\n\nhi\n",
        "",
    ],
)
def test_other_texts_are_no_archives(write, text):
    with open_export(write({"a.txt": text})) as source:
        assert not IMPORTER.recognises(source)


def test_a_named_file_that_is_no_archive_is_reported(archive):
    assert archive("hello\n").reasons == ["not an mbox file"]
