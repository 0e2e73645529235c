"""Whoever comes late to a private room is stored as having come late, whatever format tells of it."""

from datetime import UTC, datetime

import pytest

DAYS = {"ana": datetime(2024, 5, 1, tzinfo=UTC), "ben": datetime(2024, 5, 9, tzinfo=UTC)}
ACCOUNTS = {"ana": "1", "ben": "2"}


def discord(kind):
    messages = [
        {
            "id": ACCOUNTS[who],
            "type": "Default",
            "timestamp": day.isoformat(),
            "content": f"{who} speaks",
            "author": {"id": ACCOUNTS[who], "name": who},
        }
        for who, day in DAYS.items()
    ]
    return {
        "room.json": {
            "guild": {"id": "0"},
            "channel": {"id": "9", "type": kind, "name": "r"},
            "messages": messages,
        }
    }


def telegram(kind):
    messages = [
        {
            "id": int(ACCOUNTS[who]),
            "type": "message",
            "date_unixtime": str(int(day.timestamp())),
            "from": who,
            "from_id": f"user{ACCOUNTS[who]}",
            "text": f"{who} speaks",
        }
        for who, day in DAYS.items()
    ]
    return {"result.json": {"name": "r", "type": kind, "id": 9, "messages": messages}}


def slack(folder):
    return {
        f"{folder}/{day.date()}.json": [
            {
                "type": "message",
                "user": f"U{ACCOUNTS[who]}",
                "text": f"{who} speaks",
                "ts": f"{int(day.timestamp())}.000000",
            }
        ]
        for who, day in DAYS.items()
    }


def whatsapp(name):
    lines = [f"{day:%Y-%m-%d}, 00:00 - {who}: {who} speaks" for who, day in DAYS.items()]
    return {f"WhatsApp Chat with {name}.txt": "\n".join(lines)}


def mbox():
    mails = [
        f"From - {day:%c}\nFrom: {who}@example.com\nDate: {day:%d %b %Y %H:%M:%S} +0000\n\n{who} writes\n\n"
        for who, day in DAYS.items()
    ]
    return {"private mails.mbox": "".join(mails)}


@pytest.fixture
def begins(app, admin, write):
    """Import an export and return since when each of its members is one."""

    async def run(files):
        await app.import_path(write(files))
        found = await admin.execute(
            "select nullif(joined_at, '-infinity') from memberships where org_id = %s order by 1 nulls first",
            [app.org_id],
        )
        return [row[0] for row in await found.fetchall()]

    return run


@pytest.mark.parametrize(
    "files",
    [
        discord("DirectGroupTextChat"),
        discord("GuildPrivateThread"),
        telegram("private_group"),
        telegram("private_supergroup"),
        slack("secret"),
        slack("mpdm-ana--ben-1"),
        whatsapp("Harbour"),
        mbox(),
    ],
)
async def test_members_of_a_private_room_begin_with_their_first_message(begins, files):
    assert await begins(files) == list(DAYS.values())


async def test_both_people_of_a_whatsapp_chat_read_it_from_the_beginning(begins):
    assert await begins(whatsapp("ana")) == [None, None]
