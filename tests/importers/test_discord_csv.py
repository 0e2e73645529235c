from datetime import UTC, datetime

import pytest

from roomlore.domain.room_visibility import visibility_of
from roomlore.importers.discord.csv_export import IMPORTER

CHANNEL = "900000000000000001"
FILE = f"Harbour - Text - plans [{CHANNEL}].csv"
COLUMNS = "AuthorID,Author,Date,Content,Attachments,Reactions"
NOON = "2024-05-01T12:00:00.1230000+02:00"


def row(content="hello", *, account="1", author="ana#1234", date=NOON, attachments="", reactions=""):
    cells = (account, author, date, content, attachments, reactions)
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def table(*rows, columns=COLUMNS, end="\r\n"):
    return end.join([columns, *rows, ""])


@pytest.fixture
def one(read, write):
    """Read a file with these rows."""

    def run(*rows, file=FILE, **options):
        return read(IMPORTER, write({file: table(*rows)}), **options)

    return run


def test_a_row_is_a_message(one):
    message = one(row('say "hi",\n\nfriends')).only
    assert message.platform == "discord"
    assert message.body == 'say "hi",\n\nfriends'
    assert (message.author.account_id, message.author.name) == ("1", "ana")
    assert message.sent_at == datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
    assert (message.precision, message.synthetic_id, message.metadata) == ("ms", True, {})
    assert (message.room.external_id, message.room.name) == (CHANNEL, "plans")
    assert (message.room.workspace, message.room.category) == ("Harbour", "Text")


def test_names_keep_what_is_not_a_number(one):
    result = one(row(author="ana"), row(author="a#b"), row(author="نص👩\u200d👧#0000"))
    assert [message.author.name for message in result.messages] == ["ana", "a#b", "نص👩\u200d👧"]


def test_files_and_reactions(one):
    url = "https://cdn.discordapp.com/attachments/900000000000000001/900000000000000777/a%20b.png?ex=1,2"
    message = one(row(attachments=f"{url},https://x.example/c.txt", reactions="👍 (12),lul (1)")).only
    assert message.attachments == [
        {"id": "900000000000000777", "name": "a b.png", "url": url},
        {"name": "c.txt", "url": "https://x.example/c.txt"},
    ]
    assert message.reactions == [{"emoji": "👍", "count": 12}, {"emoji": "lul", "count": 1}]


def test_downloaded_files_are_paths(one):
    message = one(row(attachments=r"media\a-0A1B2.png,media/b-0A1B3.txt")).only
    assert [part["name"] for part in message.attachments] == ["a-0A1B2.png", "b-0A1B3.txt"]


def test_derived_ids_are_the_same_in_a_longer_file_and_count_equal_messages(one):
    short = [message.external_id for message in one(row("yes"), row("yes"), row("no")).messages]
    longer = [
        message.external_id for message in one(row("first"), row("yes"), row("yes"), row("no")).messages
    ]
    assert len(set(short)) == 3
    assert longer[1:] == short


def test_an_author_or_a_time_that_differs_makes_another_message(one):
    result = one(row(), row(account="2"), row(date=NOON.replace("123", "124")))
    assert len({message.external_id for message in result.messages}) == 3


def test_files_that_overlap_give_the_same_ids(read, write):
    files = {
        FILE: table(row("a"), row("b")),
        FILE.replace("].", "] (after 2024-01-01)."): table(row("b"), row("c")),
    }
    result = read(IMPORTER, write(files))
    keys = {(message.room.external_id, message.external_id) for message in result.messages}
    assert (len(result.messages), len(keys)) == (4, 3)


def test_a_room_may_be_a_private_thread_so_it_is_closed(one):
    room = one(row()).only.room
    assert room.kind is None
    assert visibility_of(room).visibility == "members"


def test_a_direct_conversation_is_of_two_if_it_is_named_after_one_of_them(one):
    file = f"Direct Messages - ben [{CHANNEL}].csv"
    room = one(row(), row(account="2", author="ben"), file=file).messages[0].room
    assert (room.kind, room.visibility, room.name) == ("dm", "members", "ben")
    assert {member.author.account_id for member in room.members} == {"1", "2"}


def test_a_file_of_any_name_is_a_room_of_that_name(one):
    room = one(row(), file="budget.csv", workspace="Harbour").only.room
    assert (room.external_id, room.name, room.workspace) == ("Harbour/budget", "budget", "Harbour")


def test_files_before_2019_have_semicolons_and_no_accounts(read, write):
    columns = "Author;Date;Content;Attachments;"
    content = table(
        "ana#1234;01-May-18 10:00 PM;hello there;;",
        'ben#0001;01-May-18 10:01 PM;"a; b";https://x.example/p.png;',
        columns=columns,
    )
    result = read(IMPORTER, write({FILE: content}), zone="Europe/Berlin")
    assert [message.body for message in result.messages] == ["hello there", "a; b"]
    assert [message.author.account_id for message in result.messages] == ["name:ana#1234", "name:ben#0001"]
    assert result.messages[0].sent_at == datetime(2018, 5, 1, 20, tzinfo=UTC)
    assert result.messages[0].metadata["platform"] == {"time_zone": "Europe/Berlin"}
    assert [part["url"] for part in result.messages[1].attachments] == ["https://x.example/p.png"]


def test_local_times_without_a_zone_are_utc_and_say_so(one):
    message = one(row(date="01-May-24 10:00 PM")).only
    assert message.sent_at == datetime(2024, 5, 1, 22, tzinfo=UTC)
    assert message.precision == "min"
    assert message.metadata["platform"] == {"time_zone": "assumed UTC"}


def test_day_and_month_are_told_apart_by_the_whole_file(one):
    result = one(*(row(date=day) for day in ("05/06/2019 12:00", "05/06/2019 12:01", "13/06/2019 12:00")))
    assert result.messages[0].sent_at == datetime(2019, 6, 5, 12, tzinfo=UTC)
    unclear = one(row(date="05/06/2019 12:00"), row(date="06/06/2019 12:00"))
    assert unclear.reasons == ["day and month unclear"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row(date="soon"), "no time"),
        (row(account="", author=""), "no author"),
        (row(account="9" * 300), "id too long"),
        ('"1","ana","2024"', "not a row"),
        (row() + ',"more","still more"', "not a row"),
    ],
)
def test_a_bad_row_is_skipped_with_its_line_and_the_others_are_read(one, bad, reason):
    result = one(row("a\nb"), bad, row("c"))
    assert [message.body for message in result.messages] == ["a\nb", "c"]
    assert result.reasons == [reason]
    assert result.skipped[0].where == f"{FILE} line 4"


def test_a_quotation_mark_that_is_never_closed_costs_only_a_part_of_the_file(one):
    rows = [row(f"{number} " + "x" * 1000) for number in range(400)]
    rows[100] = rows[100][:-1]
    result = one(*rows)
    assert result.reasons
    assert set(result.reasons) == {"not a row"}
    assert {message.body.split()[0] for message in result.messages} >= {
        str(n) for n in (*range(100), *range(300, 400))
    }


def test_a_byte_order_mark_and_the_old_line_ends_make_no_difference(read, write):
    plain, marked = (
        read(IMPORTER, write({FILE: content})).only
        for content in (table(row("a\nb"), end="\n"), "\ufeff" + table(row("a\r\nb")))
    )
    assert (plain.body, plain.external_id) == (marked.body, marked.external_id)
