import json
from datetime import UTC, datetime

import pytest

from roomlore.importers.zulip.data_export import IMPORTER
from roomlore.importers.zulip.text import mentions, plain_text

START = 1_700_000_000
ANA, BEN, CLEO, BOT = 11, 12, 13, 14
GENERAL, SECRET, PROTECTED = 31, 32, 33
TO_ANA, TO_BEN, GROUP, LOST = 41, 42, 43, 49


def at(seconds):
    return datetime.fromtimestamp(START + seconds, UTC)


def person(number, name, **more):
    return {"id": number, "full_name": name, "is_bot": False} | more


def stream(number, name, **more):
    return {"id": number, "name": name, "description": f"about {name}", "invite_only": False} | more


def subscribed(user, recipient, *, active=True):
    return {"user_profile": user, "recipient": recipient, "active": active}


def realm(**more):
    return {
        "zerver_realm": [{"id": 2, "string_id": "harbour", "name": "Harbour"}],
        "zerver_userprofile": [person(ANA, "Ana Reyes"), person(BEN, "Ben"), person(CLEO, "Cleo")],
        "zerver_userprofile_crossrealm": [person(BOT, "Octobot", is_bot=True)],
        "zerver_stream": [
            stream(21, "general"),
            stream(22, "secret", invite_only=True),
            stream(23, "protected", invite_only=True, history_public_to_subscribers=False),
        ],
        "zerver_recipient": [
            {"id": GENERAL, "type": 2, "type_id": 21},
            {"id": SECRET, "type": 2, "type_id": 22},
            {"id": PROTECTED, "type": 2, "type_id": 23},
            {"id": TO_ANA, "type": 1, "type_id": ANA},
            {"id": TO_BEN, "type": 1, "type_id": BEN},
            {"id": GROUP, "type": 3, "type_id": 77},
            {"id": LOST, "type": 2, "type_id": 29},
        ],
        "zerver_subscription": [subscribed(user, GROUP) for user in (ANA, BEN, CLEO)],
    } | more


def row(number, content="hello", *, sender=ANA, recipient=GENERAL, topic="tides", **more):
    return {
        "id": number,
        "sender": sender,
        "recipient": recipient,
        "subject": topic,
        "content": content,
        "rendered_content": "<p>hello</p>",
        "date_sent": START + number,
        "last_edit_time": None,
        "edit_history": None,
    } | more


def answer(number, content="<p>hello</p>", **more):
    return {
        "id": number,
        "sender_id": ANA,
        "sender_full_name": "Ana Reyes",
        "type": "stream",
        "stream_id": 21,
        "display_recipient": "general",
        "subject": "tides",
        "content": content,
        "content_type": "text/html",
        "timestamp": START + number,
        "reactions": [],
    } | more


@pytest.fixture
def export(read, write):
    def run(*rows, tables=None, **more):
        messages = {"zerver_message": list(rows), "zerver_usermessage": [{"id": 1, "message": 1}]} | (
            tables or {}
        )
        return read(IMPORTER, write({"messages-000001.json": messages, "realm.json": realm(**more)}))

    return run


@pytest.fixture
def answers(read, write):
    def run(*messages, **files):
        answer_ = {"result": "success", "msg": "", "messages": list(messages), "found_newest": True}
        return read(
            IMPORTER,
            write({"messages.json": answer_} | {f"{key}.json": value for key, value in files.items()}),
        )

    return run


def test_a_message_keeps_what_its_row_says(export):
    history = [{"prev_content": "helo", "timestamp": START + 9}, {"prev_topic": "x", "timestamp": START + 20}]
    message = export(
        row(
            5,
            "see **the tide**",
            date_sent=START + 0.25,
            last_edit_time=START + 20.0,
            edit_history=json.dumps(history),
        ),
        zerver_reaction=[{"message": 5, "user_profile": user, "emoji_name": "tada"} for user in (BEN, CLEO)],
    ).only
    assert (message.platform, message.external_id, message.order, message.precision) == (
        "zulip",
        "5",
        5,
        "us",
    )
    assert (message.body, message.sent_at, message.edited_at) == ("see **the tide**", at(0.25), at(9))
    assert (message.author.account_id, message.author.name, message.author.kind) == (
        "11",
        "Ana Reyes",
        "human",
    )
    assert (message.room.external_id, message.room.name, message.room.workspace) == (
        "21",
        "general",
        "Harbour",
    )
    assert (message.room.kind, message.room.visibility, message.room.topic) == (
        "channel",
        "open",
        "about general",
    )
    assert message.reactions == [{"emoji": "tada", "count": 2, "by": ["12", "13"]}]
    assert message.metadata == {"platform": {"topic": "tides", "history_lost": True}}
    assert "rendered_content" not in message.raw


def test_a_topic_is_a_thread_and_its_first_message_begins_it(export):
    result = export(
        row(4, topic="Tides"),
        row(2),
        row(3, topic="boats"),
        row(5, topic="tides", recipient=SECRET),
        row(6, topic=""),
        row(7, topic=""),
        row(8, topic="(no topic)"),
        row(9, topic="(no topic)"),
    )
    assert {
        message.external_id: message.thread_root for message in result.messages if message.thread_root
    } == {"4": "2"}


def test_moving_a_message_to_another_topic_is_no_edit_of_its_text(export):
    moved = [{"prev_topic": "x", "timestamp": START + 20}]
    result = export(
        row(1, last_edit_time=START + 20, edit_history=json.dumps(moved)),
        row(2, last_edit_time=START + 30),
        row(3, edit_history="{broken"),
    )
    assert [message.edited_at for message in result.messages] == [None, at(30), None]


def test_direct_messages_are_in_the_room_of_their_people(export):
    result = export(
        row(1, sender=ANA, recipient=TO_BEN, topic=""),
        row(2, sender=BEN, recipient=TO_ANA, topic="\x07"),
        row(3, sender=ANA, recipient=TO_ANA, topic="\x07"),
        row(4, sender=CLEO, recipient=GROUP, topic="\x07"),
    )
    one, other, self_, group = (message.room for message in result.messages)
    assert one == other
    assert (one.external_id, one.name, one.kind, one.visibility) == (
        "direct:11,12",
        "Ana Reyes and Ben",
        "dm",
        "members",
    )
    assert [member.author.account_id for member in one.members] == ["11", "12"]
    assert (self_.external_id, self_.kind) == ("direct:11", "dm")
    assert (group.external_id, group.kind, len(group.members)) == ("direct:11,12,13", "group_dm", 3)
    assert not any(message.thread_root for message in result.messages)


def change(kind, user, second, stream_id):
    return {
        "event_type": kind,
        "modified_user": user,
        "modified_stream": stream_id,
        "event_time": START + second,
    }


def periods(room):
    return [(int(one.author.account_id), one.joined_at, one.left_at) for one in room.members]


def test_a_private_stream_is_for_its_subscribers(export):
    room = export(
        row(5, recipient=SECRET),
        zerver_subscription=[
            subscribed(ANA, SECRET),
            subscribed(BEN, SECRET, active=False),
            subscribed(CLEO, SECRET, active=False),
            subscribed(BEN, GENERAL),
        ],
        zerver_realmauditlog=[change(301, BEN, 1, 22), change(303, BEN, 8, 22), change(301, CLEO, 2, 21)],
    ).only.room
    assert room.visibility == "members"
    # Whoever is subscribed reads what was written before. When Cleo left, nobody says.
    assert periods(room) == [(ANA, None, None), (BEN, None, at(8))]


def test_in_a_stream_with_protected_history_people_read_from_when_they_came(export):
    room = export(
        row(5, recipient=PROTECTED),
        zerver_subscription=[
            subscribed(ANA, PROTECTED),
            subscribed(BEN, PROTECTED),
            subscribed(CLEO, PROTECTED),
        ],
        zerver_realmauditlog=[
            change("subscription_activated", ANA, 7, 23),
            change("subscription_created", ANA, 1, 23),
            change("subscription_deactivated", ANA, 4, 23),
            change(301, BEN, 3, 23),
        ],
    ).only.room
    assert periods(room) == [(ANA, at(1), at(4)), (ANA, at(7), None), (BEN, at(3), None)]


def test_a_stream_that_no_table_describes_may_be_private(export):
    room = export(row(1, recipient=LOST)).only.room
    assert (room.external_id, room.kind, room.visibility) == ("29", None, None)


def test_bots_are_agents_and_reports_of_the_server_are_from_the_system(export):
    bot, report, unknown = export(row(1, sender=BOT), row(2, sender=BOT, type=2), row(3, sender=99)).messages
    assert (bot.author.name, bot.author.kind, bot.kind) == ("Octobot", "agent", "message")
    assert report.kind == "system"
    assert (unknown.author.account_id, unknown.author.name, unknown.author.kind) == ("99", "99", "human")


def test_only_mentions_that_name_one_person_count(export):
    text = (
        "@**Ana Reyes** and @**Sam|15** and @**Sam** and @_**Ben** and @**all** and @**Ana Reyes|11**\n"
        "```quote\n@**Cleo**\n```\n@**Cleo|13**"
    )
    message = export(
        row(1, text),
        zerver_userprofile_mirrordummy=[person(15, "Sam"), person(16, "Sam")],
    ).only
    assert message.mentions == ["11", "15", "13"]
    assert message.body == text


def test_mentions_in_nested_fences_do_not_count():
    text = "````quote\n```python\n@**a**\n```\n@**b**\n````\n@**c**\n~~~\n@**d**"
    assert mentions(text) == [("c", None)]


def quotation(where, number):
    address = f"https://x.org/#narrow/{where}/near/{number}"
    return f"@_**Ben|12** [said]({address}):\n```quote\nthe tide\n```\nI agree"


def test_a_message_that_quotes_another_one_of_its_room_is_a_reply(export):
    result = export(
        row(2, quotation("channel/21-general/topic/tides", 1)),
        row(3, quotation("channel/22-secret/topic/tides", 1)),
        row(4, quotation("dm/11,12-dm", 1), recipient=TO_BEN, topic=""),
        row(5, "as @_**Ben|12** [said](https://x.org/#narrow/channel/21-general/topic/x/near/1): no"),
    )
    assert [message.reply_to for message in result.messages] == ["1", None, "1", None]
    assert "the tide" in result.messages[0].body


def test_actions_and_polls_are_told_apart_from_texts(export):
    action, poll = export(row(1, "/me waves"), row(2, "/poll Where?\n- Pier\n* Office\n\n")).messages
    assert (action.body, action.metadata["platform"]["action"]) == ("waves", True)
    assert (poll.body, poll.attachments) == (
        "",
        [{"type": "poll", "name": "Where?", "options": ["Pier", "Office"]}],
    )


def test_archived_messages_keep_their_places_only(export):
    result = export(row(1), tables={"zerver_archivedmessage": [row(2, "secret")]})
    assert [(message.body, message.deleted) for message in result.messages] == [("hello", False), ("", True)]
    assert result.messages[1].raw is None


def test_an_answer_is_read_without_tables(answers):
    html = (
        '<p>Look, <span class="user-mention" data-user-id="12">@Ben</span> '
        '<span class="user-mention silent" data-user-id="13">Cleo</span>:<br>\nit is &lt;late&gt;</p>'
    )
    edit = {"last_edit_timestamp": START + 9, "edit_history": [{"prev_content": "x", "timestamp": START + 9}]}
    reactions = [{"emoji_name": "tada", "user_id": 12}, {"emoji_name": "tada", "user": {"id": 13}}]
    people = [{"id": 11, "full_name": "Ana Reyes"}, {"id": 12, "full_name": "Ben"}]
    direct = {"stream_id": None, "display_recipient": people, "subject": "", "type": "private"}
    result = answers(
        answer(1, html, reactions=reactions, **edit),
        answer(2),
        answer(3, "raw *text*", content_type="text/x-markdown", **direct),
    )
    first, second, third = result.messages
    assert (first.body, first.mentions, first.edited_at) == ("Look, @Ben Cleo:\nit is <late>", ["12"], at(9))
    assert first.reactions == [{"emoji": "tada", "count": 2, "by": ["12", "13"]}]
    assert (first.room.external_id, first.room.name, first.room.kind, first.room.visibility) == (
        "21",
        "general",
        None,
        None,
    )
    assert (first.precision, second.thread_root, first.author.name) == ("s", "1", "Ana Reyes")
    assert (third.body, third.room.external_id, third.room.kind) == ("raw *text*", "direct:11,12", "dm")


def test_answers_about_users_and_streams_describe_the_messages(answers):
    users = {"result": "success", "members": [{"user_id": ANA, "full_name": "Ana", "is_bot": True}]}
    streams = {"result": "success", "streams": [{"stream_id": 21, "name": "general", "invite_only": True}]}
    message = answers(answer(1), users=users, streams=streams).only
    assert (message.author.name, message.author.kind) == ("Ana Reyes", "agent")
    assert message.room.visibility == "members"


def test_html_that_cannot_be_read_costs_only_its_message(answers):
    result = answers(answer(1, "<![foo[ bar"), answer(2))
    assert (result.only.external_id, result.reasons) == ("2", ["damaged HTML"])


def test_rendered_text_keeps_quotes_lists_code_and_emoji():
    html = (
        '<p><span aria-label="tada" class="emoji emoji-1f389" role="img">:tada:</span> '
        '<img class="emoji" alt=":boat:" src="x"></p><blockquote>\n<p>one</p>\n<p>two</p>\n</blockquote>'
        '<ul>\n<li>a</li>\n<li>b</li>\n</ul><div class="codehilite"><pre><span></span><code>x = 1\n  y\n</code></pre></div>'
    )
    assert plain_text(html).split("\n") == [":tada: :boat:", "> one", "> two", "- a", "- b", "x = 1", "  y"]


def test_a_broken_row_costs_only_itself(export):
    result = export(
        row(1),
        7,
        row(2, recipient=999),
        row(3, sender=None),
        row(4) | {"id": "4"},
        row(5, date_sent="now"),
        row(6, date_sent=1e300),
        row(7, content=[]),
        answer(8, "<![endif[<p>x</p>", subject="x"),
        row(9),
    )
    assert [message.external_id for message in result.messages] in (["1", "8", "9"], ["1", "9"])
    assert result.reasons[:7] == [
        "not an object",
        "no room",
        "no author",
        "no id",
        "no time",
        "no time",
        "wrong type",
    ]
    assert len(result.items) == 10


def test_an_uploaded_file_that_looks_like_an_export_is_not_read(read, write):
    messages = {"zerver_message": [row(1)]}
    result = read(
        IMPORTER,
        write({"realm.json": realm(), "messages-000001.json": messages, "uploads/2/x.json": messages}),
    )
    assert len(result.messages) == 1
    assert result.reasons == ["export among attachments"]
