"""Pages are written here as the exporter writes them: minified, most attributes without quotation marks."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from roomlore.domain.room_visibility import visibility_of
from roomlore.importers.discord import json_export as discord
from roomlore.importers.discord.html_export import IMPORTER
from roomlore.importers.reading import html_stream
from roomlore.importers.reading.export import open_export

CHANNEL = "900000000000000001"
FILE = f"Harbour - Text - plans [{CHANNEL}].html"
NOON = datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
HEAD = "<!DOCTYPE html><html lang=en><head><title>x</title><style>.chatlog__message-group{margin:1px}</style><body>"


def snowflake(moment=NOON, number=1):
    ms = (moment - datetime(2015, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return str((ms << 22) + number)


def shown(moment, ahead=2):
    """Return how a page writes a moment whose clock is some hours ahead of UTC."""
    return (moment + timedelta(hours=ahead)).strftime("%d/%m/%Y %H:%M")


def content(text, edited=None):
    mark = f" <span class=chatlog__edited-timestamp title='{shown(edited)}'>(edited)</span>" if edited else ""
    preserved = f"<span class=chatlog__markdown-preserve>{text}</span>"
    return f'<div class="chatlog__content chatlog__markdown">{preserved}{mark}</div>'


def header(name="Ana", title="ana", account="1", tag=""):
    tagged = f" <span class=chatlog__author-tag>{tag}</span>" if tag else ""
    time = "<span class=chatlog__timestamp title='x'><a href=#x>x</a></span>"
    return (
        f'<div class=chatlog__header><span class=chatlog__author title="{title}" data-user-id={account}>{name}'
        f"</span>{tagged} {time}</div>"
    )


def said(  # noqa: PLR0913  what a message may have
    number=1,
    text="hello",
    *,
    moment=NOON,
    head=None,
    above="",
    below="",
    edited=None,
    pinned=False,
    time=None,
):
    id_ = snowflake(moment, number)
    title = shown(moment) if time is None else time
    side = f'<div class=chatlog__short-timestamp title="{title}">x</div>' if head == "" else ""
    head = (header() if head is None else head).replace("title='x'", f'title="{title}"')
    classes = (
        '"chatlog__message-container chatlog__message-container--pinned"'
        if pinned
        else "chatlog__message-container"
    )
    return (
        f"<div id=chatlog__message-container-{id_} class={classes} data-message-id={id_}><div class=chatlog__message>"
        f"<div class=chatlog__message-aside>{side}</div><div class=chatlog__message-primary>{above}{head}"
        f"{content(text, edited) if text is not None else ''}{below}</div></div></div>"
    )


def group(*messages):
    return f"<div class=chatlog__message-group>{''.join(messages)}</div>"


def preamble(server="Harbour", path="Text / plans", *more):
    entries = "".join(f"<div class=preamble__entry>{one}</div>" for one in (server, path))
    entries += "".join(f'<div class="preamble__entry preamble__entry--small">{one}</div>' for one in more)
    return f"<div class=preamble><div class=preamble__entries-container>{entries}</div></div>"


def page(*groups, top=None):
    end = "</div><div class=postamble><div class=postamble__entry>Exported 1 message(s)</div></div></body></html>"
    return HEAD + (top or preamble()) + '<div class="chatlog">' + "\n".join(groups) + end


@pytest.fixture
def one(read, write):
    """Read a page with these groups."""

    def run(*groups, file=FILE, top=None, **options):
        return read(IMPORTER, write({file: page(*groups, top=top)}), **options)

    return run


@pytest.fixture
def body(one):
    """Return the text of a message that is rendered so."""
    return lambda rendered: one(group(said(text=rendered))).only.body


def test_a_message_reads(one):
    message = one(group(said())).only
    assert message.platform == "discord"
    assert message.external_id == snowflake()
    assert message.body == "hello"
    assert (message.author.account_id, message.author.name, message.author.kind) == ("1", "Ana", "human")
    assert (message.kind, message.precision, message.synthetic_id) == ("message", "ms", False)
    assert (message.room.external_id, message.room.name, message.room.category) == (CHANNEL, "plans", "Text")
    assert message.room.workspace == "Harbour"
    assert message.metadata == {}


def test_the_time_comes_from_the_id_and_not_from_the_clock_of_the_page(one):
    message = one(group(said(time="today at noon"))).only
    assert message.sent_at == NOON


def test_the_author_is_the_one_at_the_head_of_the_group(one):
    ben = header("Ben", "ben", "2")
    result = one(group(said(1), said(2, head="")), group(said(3, head=ben), said(4, head="")))
    assert [message.author.name for message in result.messages] == ["Ana", "Ana", "Ben", "Ben"]


def test_a_message_without_a_head_in_its_group_is_skipped_and_not_given_to_the_last_author(one):
    result = one(group(said(1)), group(said(2, head="")))
    assert len(result.messages) == 1
    assert result.reasons == ["no author"]
    assert snowflake(NOON, 2) in result.skipped[0].where


def test_a_bot_is_an_agent_and_a_webhook_has_personas(one):
    bot = header("Helper", "Helper#1234", "7", "BOT")
    hooks = [
        header(name, f"{name}{number}", "8", "BOT") for name, number in (("Tide", ""), ("Wind", "#0000"))
    ]
    result = one(*(group(said(n, head=head)) for n, head in enumerate([bot, *hooks])))
    assert [message.author.kind for message in result.messages] == ["agent"] * 3
    assert [message.author.persona for message in result.messages] == ["", "Tide", "Wind"]


def test_a_reply_names_its_parent(one):
    above = (
        "<div class=chatlog__reply><div class=chatlog__reply-author title=ben>Ben</div><div class=chatlog__reply-content>"
        "<span class=chatlog__reply-link onclick=\"scrollToMessage(event,'77')\"> when? <a href=x "
        "onclick=\"scrollToMessage(event,'66')\">there</a></span></div></div>"
    )
    message = one(group(said(above=above))).only
    assert message.reply_to == "77"
    assert message.body == "hello"
    assert message.author.name == "Ana"


def test_a_link_to_a_message_is_no_reply(one):
    link = (
        "see <a href=https://discord.com/channels/1/2/77 onclick=\"scrollToMessage(event, '77')\">there</a>"
    )
    message = one(group(said(text=link))).only
    assert message.reply_to is None
    assert message.body == "see [there](https://discord.com/channels/1/2/77)"


def test_a_lost_parent_and_a_command_are_noted_and_are_no_replies(one):
    lost = "<div class=chatlog__reply><div class=chatlog__reply-unknown>Original message was deleted.</div></div>"
    used = (
        "<div class=chatlog__reply><div class=chatlog__reply-author title=ben>Ben</div>"
        "<div class=chatlog__reply-content> used /roll </div></div>"
    )
    first, second = one(group(said(1, above=lost)), group(said(2, above=used))).messages
    assert first.reply_to is second.reply_to is None
    assert first.metadata["platform"] == {"reply_lost": True}
    assert second.metadata["platform"] == {"interaction": {"name": "roll", "user": "Ben"}}


def test_an_edit_is_read_on_the_clock_of_its_message(one):
    message = one(group(said(edited=NOON + timedelta(minutes=5)))).only
    assert message.edited_at == NOON.replace(microsecond=0) + timedelta(minutes=5)
    assert message.metadata["platform"]["history_lost"] is True


def test_an_edit_in_the_minute_of_its_message_is_not_before_it(one):
    message = one(group(said(edited=NOON))).only
    assert message.edited_at == message.sent_at


def test_an_edit_without_any_text_is_an_edited_message(one):
    message = one(group(said(text="", edited=NOON + timedelta(minutes=5)))).only
    assert message.body == ""
    assert message.edited_at is not None


@pytest.mark.parametrize(
    ("sent", "edited"),
    [
        ("9/20/2025 3:41\u202fPM", "9/20/2025 3:43\u202fPM"),
        ("Saturday, September 20, 2025 3:41 p.m.", "Saturday, September 20, 2025 3:43 p.m."),
        ("Samstag, 20. September 2025 15:41", "Samstag, 20. September 2025 15:43"),
        ("суббота, 20 сентября 2025 г. 15:41", "суббота, 20 сентября 2025 г. 15:43"),  # noqa: RUF001
        ("samedi 20 septembre 2025 15:41", "samedi 20 septembre 2025 15:43"),
        ("2025年9月20日星期六 下午3:41", "2025年9月20日星期六 下午3:43"),
        ("20-09-2025 15.41", "20-09-2025 15.43"),
        ("20-Sep-25 03:41 PM", "20-Sep-25 03:43 PM"),
        ("2025-09-20 15:41", "2025-09-20 15:43"),
    ],
)
def test_times_of_many_languages_are_read(one, sent, edited):
    moment = datetime(2025, 9, 20, 10, 11, 30, tzinfo=UTC)
    written = said(moment=moment, time=sent, edited=NOON).replace(shown(NOON), edited)
    # This clock was five and a half hours ahead of UTC.
    assert one(group(written)).only.edited_at == datetime(2025, 9, 20, 10, 13, tzinfo=UTC)


def test_a_named_zone_is_used_for_edits(one):
    message = one(group(said(edited=NOON + timedelta(hours=3))), zone="Europe/Berlin").only
    assert message.edited_at == datetime(2024, 5, 1, 13, 0, tzinfo=UTC)


def test_whether_day_or_month_comes_first_is_learned_from_the_ids_of_the_whole_page(one):
    early = datetime(2024, 3, 2, 10, tzinfo=UTC)
    edit = said(1, moment=early, edited=early + timedelta(days=31))
    assert one(group(edit)).only.edited_at == datetime(2024, 4, 2, 10, tzinfo=UTC)
    american = edit.replace(shown(early), "3/2/2024 12:00").replace(
        shown(early + timedelta(days=31)), "4/2/2024 12:00"
    )
    assert one(group(american)).only.edited_at == datetime(2024, 4, 2, 10, tzinfo=UTC)


def test_a_system_message_tells_its_event(one):
    message_id = snowflake()
    system = (
        f"<div class=chatlog__message-container data-message-id={message_id}><div class=chatlog__message>"
        "<div class=chatlog__message-aside><svg class=chatlog__system-notification-icon><use href=#pin-icon></use></svg>"
        "</div><div class=chatlog__message-primary><span class=chatlog__system-notification-author title=ana "
        "data-user-id=1>Ana</span> <span> </span> <span class=chatlog__system-notification-content> <span>pinned </span> "
        "<a class=chatlog__system-notification-link href=#chatlog__message-container-77>a message</a> <span> to this "
        "channel.</span> </span> <span class=chatlog__system-notification-timestamp title=x><a>x</a></span></div></div></div>"
    )
    message = one(group(system)).only
    assert (message.kind, message.body) == ("system", "Pinned a message to this channel.")
    assert message.author.account_id == "1"
    assert message.reply_to is None


def test_a_system_message_of_2022_tells_its_event_and_is_no_reply(one):
    told = (
        "<span class=chatlog__system-notification> pinned</span><span "
        'class="chatlog__system-notification-reference-link chatlog__reference-link" '
        "onclick=\"scrollToMessage(event, '77')\"> a message</span><span class=chatlog__system-notification> to this "
        "channel.</span>"
    )
    message = one(group(said(text=None, head=header().replace("</div>", f"{told}</div>")))).only
    assert (message.kind, message.body) == ("system", "Pinned a message to this channel.")
    assert message.reply_to is None


@pytest.mark.parametrize(
    ("small", "topic"),
    [([], ""), (["After 01/05/2024"], ""), (["tides &amp; berths", "Between 1 and 2"], "tides & berths")],
)
def test_the_topic_is_not_the_range_of_dates(one, small, topic):
    assert one(group(said()), top=preamble("Harbour", "Text / plans", *small)).only.room.topic == topic


@pytest.mark.parametrize(
    ("rendered", "text"),
    [
        ("a &lt;b&gt; &amp; c&#39;s", "a <b> & c's"),
        ("one\n  two\n\nthree", "one\n  two\n\nthree"),
        ("<strong>b</strong> <em>i</em> <u>u</u> <s>s</s>", "**b** *i* __u__ ~~s~~"),
        ('<span class=chatlog__markdown-mention title="ben">@Ben</span> hi', "@Ben hi"),
        ('<img loading=lazy class="chatlog__emoji " alt=👍 title=thumbsup src=x> <img class=chatlog__emoji alt=lul src=y>', "👍 :lul:"),
        ('a <code class="chatlog__markdown-pre chatlog__markdown-pre--inline">x &lt; y</code>', "a `x < y`"),
        (
            'run\n<code class="chatlog__markdown-pre chatlog__markdown-pre--multiline language-py">if x:\n    pass</code>\nnow',
            "run\n```py\nif x:\n    pass\n```\nnow",
        ),
        (
            ("a\n<div class=chatlog__markdown-quote><div class=chatlog__markdown-quote-border></div>"
            "<div class=chatlog__markdown-quote-content>b\nc\n</div></div>d"),
            "a\n> b\n> c\nd",
        ),
        ('<span class="chatlog__markdown-spoiler chatlog__markdown-spoiler--hidden" onclick="showSpoiler(event, this)">x</span>', "||x||"),
        ("<a href=https://x.example/a?b&amp;c>https://x.example/a?b&amp;c</a>", "https://x.example/a?b&c"),
        ("<a href=https://x.example>site</a>", "[site](https://x.example)"),
        ("<h2>Plan</h2><ul><li>one</li><li>two</li></ul>end", "## Plan\n- one\n- two\nend"),
        ("one<br>two", "one\ntwo"),
        # Without formatting, the exporter writes the text as it is.
        ("hi <a:wave:123> <t:1700000000:R> <nobody> <#5>", "hi <a:wave:123> <t:1700000000:R> <nobody> <#5>"),
        ("نص \u200f عربي \u2067x\u2069 👨\u200d👩\u200d👧", "نص \u200f عربي \u2067x\u2069 👨\u200d👩\u200d👧"),
    ],
)  # fmt: skip
def test_rendered_text_becomes_text_again(body, rendered, text):
    assert body(rendered) == text


def test_a_mention_is_the_account_of_the_only_author_with_that_name(one):
    mention = '<span class=chatlog__markdown-mention title="{}">@x</span>'
    ben, hook = header("Ben", "ben", "2"), header("eve", "eve", "8", "BOT")
    both = [header("Cy", "cy", "3"), header("Cy", "cy", "4")]
    asked = [mention.format(name) for name in ("ben", "eve", "cy", "nobody")]
    first, *_ = one(
        group(said(1, text=" ".join(asked))),
        *(group(said(n, head=h)) for n, h in enumerate([ben, hook, *both], 2)),
    ).messages
    assert first.mentions == ["2"]


def test_files_stickers_and_reactions(one):
    url = (
        "https://cdn.discordapp.com/attachments/900000000000000001/900000000000000777/a%20b.png?ex=1&amp;hm=2"
    )
    below = (
        f'<div class=chatlog__attachment><a href="{url}"> <img class=chatlog__attachment-media src="{url}" alt="A map" '
        'title="Image: a b.png (2.5 KB)"> </a></div>'
        "<div class=chatlog__attachment><div class=chatlog__attachment-generic><svg><use href=#attachment-icon /></svg>"
        "<div class=chatlog__attachment-generic-name><a href=files/log.txt> log.txt </a></div>"
        "<div class=chatlog__attachment-generic-size>3 KB</div></div></div>"
        "<div class=chatlog__sticker title=wave><img class=chatlog__sticker--media src=s.png alt=Sticker></div>"
        "<div class=chatlog__reactions><div class=chatlog__reaction title=thumbsup><img class=chatlog__emoji alt=👍>"
        " <span class=chatlog__reaction-count>12</span></div></div>"
    )
    message = one(group(said(below=below, pinned=True))).only
    assert message.attachments == [
        {"id": "900000000000000777", "name": "a b.png", "text": "A map", "url": url.replace("&amp;", "&")},
        {"name": "log.txt", "url": "files/log.txt"},
        {"type": "sticker", "name": "wave", "url": "s.png"},
    ]
    assert message.reactions == [{"emoji": "👍", "count": 12}]
    assert message.metadata["platform"] == {"pinned": True}
    assert message.body == "hello"


def test_embeds_are_attachments(one):
    below = (
        "<div class=chatlog__embed><div class=chatlog__embed-color-pill></div><div class=chatlog__embed-content-container>"
        "<div class=chatlog__embed-author-container><div class=chatlog__embed-author>octobot</div></div>"
        "<div class=chatlog__embed-title><a class=chatlog__embed-title-link href=https://x.example><div "
        'class="chatlog__markdown chatlog__markdown-preserve">Tide <strong>tables</strong></div></a></div>'
        '<div class=chatlog__embed-description><div class="chatlog__markdown chatlog__markdown-preserve">one\ntwo</div></div>'
        "<div class=chatlog__embed-fields><div class=chatlog__embed-field><div class=chatlog__embed-field-name><div "
        "class=chatlog__markdown-preserve>Port</div></div><div class=chatlog__embed-field-value>North</div></div></div>"
        "<div class=chatlog__embed-footer><span class=chatlog__embed-footer-text> Harbour  •  01/05/2024 12:00 </span></div>"
        "</div></div>"
        "<div class=chatlog__embed><video class=chatlog__embed-generic-gifv data-canonical-url=https://y.example/z.mp4>"
        "<source src=local.mp4></video></div>"
        "<div class=chatlog__embed><div class=chatlog__embed-images><a href=i><img class=chatlog__embed-image "
        "src=local.png data-canonical-url=https://y.example/i.png></a></div></div>"
    )
    message = one(group(said(below=below))).only
    assert message.attachments == [
        {
            "type": "embed",
            "author": "octobot",
            "name": "Tide **tables**",
            "url": "https://x.example",
            "text": "one\ntwo",
            "fields": [{"name": "Port", "value": "North"}],
            "footer": "Harbour",
        },
        {"type": "embed", "url": "https://y.example/z.mp4"},
        {"type": "embed", "url": "https://y.example/i.png"},
    ]


def test_a_forwarded_text_is_not_by_the_person_who_forwards_it(one):
    below = (
        "<div class=chatlog__forwarded><div class=chatlog__forwarded-header><em>Forwarded</em></div>"
        '<div class="chatlog__forwarded-content chatlog__markdown"><span class=chatlog__markdown-preserve>The berth is '
        "closed</span></div><div class=chatlog__forwarded-attachments><a href=m.png><img "
        'class=chatlog__forwarded-attachment src=m.png title="Image: m.png (1 KB)"></a></div>'
        f'<div class=chatlog__forwarded-timestamp><span title="{shown(NOON - timedelta(hours=1))}">Originally sent: x</span>'
        "</div></div>"
    )
    message = one(group(said(text=None, below=below))).only
    assert message.body == ""
    assert message.attachments == [
        {"type": "forward", "text": "The berth is closed", "sent_at": "2024-05-01T09:00:00+00:00"},
        {"name": "m.png", "url": "m.png", "forwarded": True},
    ]
    assert message.metadata["platform"] == {"forwarded_from": "unknown"}


def test_html_and_json_of_a_channel_give_the_same_rooms_messages_and_authors(read, write, one):
    author = {"id": "1", "name": "ana", "discriminator": "0000", "nickname": "Ana", "isBot": False}
    hook = {"id": "8", "name": "Tide", "discriminator": "0000", "nickname": "Tide", "isBot": True}
    texts = ["hello *there* :lul: 👍", "> quoted\nand `code`", "||secret||", ""]
    rendered = [
        "hello <em>there</em> <img class=chatlog__emoji alt=lul> <img class=chatlog__emoji alt=👍>",
        (
            "<div class=chatlog__markdown-quote><div class=chatlog__markdown-quote-content>quoted\n</div></div>and "
            '<code class="chatlog__markdown-pre chatlog__markdown-pre--inline">code</code>'
        ),
        "<span class=chatlog__markdown-spoiler>secret</span>",
        None,
    ]
    records = [
        {
            "id": snowflake(number=n),
            "type": "Default",
            "timestamp": NOON.isoformat(),
            "content": text,
            "author": hook if n == 3 else author,
            "reference": {"messageId": snowflake(number=0), "channelId": CHANNEL} if n == 1 else None,
        }
        for n, text in enumerate(texts)
    ]
    channel = {
        "id": CHANNEL,
        "type": "GuildTextChat",
        "category": "Text",
        "name": "plans",
        "topic": "what next",
    }
    exported = {"guild": {"id": "1", "name": "Harbour"}, "channel": channel, "messages": records}
    path = write({"json/plans.json": exported}) / "json"
    from_json = read(discord.IMPORTER, path).messages
    link = (
        f"<span class=chatlog__reply-link onclick=\"scrollToMessage(event,'{snowflake(number=0)}')\">x</span>"
    )
    reply = f"<div class=chatlog__reply>{link}</div>"
    from_html = one(
        *(
            group(
                said(
                    n,
                    text,
                    above=reply if n == 1 else "",
                    head=header("Tide", "Tide", "8", "BOT") if n == 3 else None,
                )
            )
            for n, text in enumerate(rendered)
        ),
        top=preamble("Harbour", "Text / plans", "what next"),
    ).messages

    def row(message):
        key = (message.platform, message.room.external_id, message.external_id)
        return (
            key,
            message.room,
            message.author,
            message.body,
            message.sent_at,
            message.reply_to,
            message.order,
        )

    assert [row(message) for message in from_html] == [row(message) for message in from_json]
    assert json.loads(path.joinpath("plans.json").read_text())["messages"][3]["content"] == from_html[3].body


def test_the_room_of_a_file_without_an_id_in_its_name_is_named_by_server_category_and_channel(one):
    message = one(group(said()), file="plans.html").only
    assert message.room.external_id == "Harbour/Text/plans"


@pytest.mark.parametrize(
    "suffix", ["", " (after 2024-01-01)", " [part 2]", " (2024-01-01 to 2024-02-01) [part 12]"]
)
def test_partitions_belong_to_one_room(one, suffix):
    assert one(group(said()), file=FILE.replace(".html", f"{suffix}.html")).only.room.external_id == CHANNEL


def test_a_thread_may_be_private_so_its_room_is_closed(one):
    room = one(group(said()), top=preamble("Harbour", "Text / plans / berths")).only.room
    assert (room.name, room.category, room.kind) == ("berths", "plans", None)
    assert visibility_of(room).visibility == "members"


def test_a_channel_whose_category_is_private_is_closed(one):
    room = one(group(said()), top=preamble("Harbour", "Staff / plans")).only.room
    assert visibility_of(room).visibility == "members"


def test_a_direct_conversation_is_of_two_if_it_is_named_after_one_of_them(one):
    ben = header("Ben", "ben#1234", "2")
    room = (
        one(group(said(1)), group(said(2, head=ben)), top=preamble("Direct Messages", "ben")).messages[0].room
    )
    assert (room.kind, room.visibility, room.workspace) == ("dm", "members", "")
    assert {member.author.account_id for member in room.members} == {"1", "2"}


def test_a_direct_conversation_of_another_name_may_be_a_group_so_nobody_reads_what_was_before_them(one):
    room = one(group(said(1)), top=preamble("Direct Messages", "the crew")).messages[0].room
    assert (room.kind, room.visibility, list(room.members)) == (None, "members", [])
    people = [group(said(n, head=header(f"P{n}", f"p{n}", str(n)))) for n in range(1, 4)]
    group_room = one(*people, top=preamble("Direct Messages", "p1, p2")).messages[0].room
    assert (group_room.kind, list(group_room.members)) == ("group_dm", [])


def test_an_export_among_downloaded_files_is_not_read(read, write):
    other = FILE.replace(CHANNEL, "900000000000000002")
    files = {
        FILE: page(group(said(1))),
        f"{FILE}_Files/x.html": page(group(said(2))),
        "media/x-0A1B2.html": page(),
    }
    result = read(IMPORTER, write(files | {f"threads/{other}": page(group(said(3)))}))
    assert {message.external_id for message in result.messages} == {snowflake(number=1), snowflake(number=3)}
    assert result.reasons == ["export among attachments"] * 2


# Pages from 2019 to 2021, and before.

OLD_HEAD = (
    HEAD + "<div class=info><div class=info__metadata><div class=info__guild-name>Harbour</div><div class="
)
OLD_HEAD += "info__channel-name>plans</div><div class=info__channel-topic>what next</div></div></div><div class=chatlog>"


def old_group(*inner, name="Ana", account=' data-user-id="1"', time="01-May-24 12:00 PM", above=""):
    return (
        f'<div class="chatlog__message-group">{above}<div class="chatlog__author-avatar-container"></div>'
        f'<div class="chatlog__messages">\n<span class="chatlog__author-name" title="{name.lower()}#1234"{account}>{name}'
        f'</span>\n<span class="chatlog__timestamp">{time}</span>\n{"".join(inner)}</div></div>'
    )


def old_message(number, text, tail=""):
    return (
        f'<div class="chatlog__message " data-message-id="{snowflake(number=number)}" id="message-1">\n<div '
        f'class="chatlog__content">\n<div class="markdown">{text}{tail}</div>\n</div></div>'
    )


def test_pages_of_2021_have_a_head_for_each_group(read, write):
    above = (
        '<div class="chatlog__reference-symbol"></div><div class="chatlog__reference"><div '
        'class="chatlog__reference-content"><span class="chatlog__reference-link" onclick="scrollToMessage(event, \'77\')">x'
        "</span></div></div>"
    )
    first = old_message(
        1, '<span class="preserve-whitespace">a\n  <span class="pre pre--inline">b</span></span>'
    )
    result = read(IMPORTER, write({FILE: OLD_HEAD + old_group(first, old_message(2, "c\nd"), above=above)}))
    assert [message.body for message in result.messages] == ["a\n  `b`", "c\nd"]
    assert [message.reply_to for message in result.messages] == ["77", None]
    assert [message.external_id for message in result.messages] == [snowflake(number=1), snowflake(number=2)]
    assert {message.author.account_id for message in result.messages} == {"1"}
    assert (result.messages[0].room.name, result.messages[0].room.topic) == ("plans", "what next")


def bare(text, files=""):
    return f'<div class="chatlog__content">\n   {text}\n</div>{files}'


def test_pages_before_2019_have_no_ids_and_their_times_need_a_zone(read, write):
    picture = '<div class="chatlog__attachment"><a href="https://x.example/p.png"><img class="chatlog__attachment-thumbnail" src="https://x.example/p.png" /></a></div>'
    groups = old_group(bare("one<br />two", picture), bare("three"), account="")
    path = write({FILE: OLD_HEAD + groups})
    result = read(IMPORTER, path, zone="Europe/Berlin")
    assert [message.body for message in result.messages] == ["one\ntwo", "three"]
    assert result.messages[0].attachments == [{"name": "p.png", "url": "https://x.example/p.png"}]
    assert result.messages[0].author.account_id == "name:ana#1234"
    assert {message.sent_at for message in result.messages} == {datetime(2024, 5, 1, 10, tzinfo=UTC)}
    assert result.messages[0].metadata["platform"] == {"time_zone": "Europe/Berlin"}
    assert result.messages[0].precision == "min"
    assert read(IMPORTER, path).messages[0].metadata["platform"] == {"time_zone": "assumed UTC"}


def test_derived_ids_are_the_same_in_a_longer_page_and_count_equal_messages(read, write):
    short = old_group(bare("yes"), bare("yes"), account="")
    longer = old_group(bare("first"), account="", time="30-Apr-24 12:00 PM") + short
    ids = [
        [message.external_id for message in read(IMPORTER, write({FILE: OLD_HEAD + groups})).messages]
        for groups in (short, longer)
    ]
    assert len(set(ids[0])) == 2
    assert ids[1][1:] == ids[0]


def test_a_date_with_two_readings_is_not_guessed(read, write):
    dates = ["05/06/2019 12:00", "06/06/2019 12:00", "07/06/2019 12:00"]
    path = write({FILE: OLD_HEAD + "".join(old_group(bare(day), account="", time=day) for day in dates)})
    result = read(IMPORTER, path)
    assert [message.body for message in result.messages] == ["06/06/2019 12:00"]
    assert result.reasons == ["day and month unclear"] * 2


@pytest.mark.parametrize(
    ("last", "june"), [("13/06/2019 12:00", True), ("06/13/2019 12:00", False), ("04/07/2019 12:00", True)]
)
def test_a_number_above_twelve_or_the_order_of_the_messages_tells_day_and_month_apart(
    read, write, last, june
):
    dates = ["05/06/2019 12:00", "07/06/2019 12:00", last]
    path = write({FILE: OLD_HEAD + "".join(old_group(bare("x"), account="", time=day) for day in dates)})
    result = read(IMPORTER, path)
    assert result.skipped == []
    assert (result.messages[0].sent_at == datetime(2019, 6, 5, 12, tzinfo=UTC)) is june


# Damage.


def test_a_page_that_is_cut_off_gives_what_is_before(read, write):
    text = page(group(said(1)), group(said(2)))
    result = read(IMPORTER, write({FILE: text[: text.index(snowflake(number=2)) + 200]}))
    assert [message.external_id for message in result.messages] == [snowflake(number=1)]
    assert result.reasons == ["the file is cut off"]


def test_an_element_that_is_left_open_costs_no_other_message(one):
    result = one(group(said(1).replace("</div></div></div>", "")), group(said(2)), group(said(3)))
    assert [message.external_id for message in result.messages] == [snowflake(number=n) for n in (1, 2, 3)]
    assert {message.body for message in result.messages} == {"hello"}


def test_an_element_that_is_closed_twice_makes_no_message_of_what_follows(one):
    embed = "<div class=chatlog__embed><div class=chatlog__embed-description>by nobody</div></div>"
    result = one(group(said(1, below="</div>" * 5 + embed)), group(said(2)))
    assert [(message.external_id, message.attachments) for message in result.messages] == [
        (snowflake(number=1), []),
        (snowflake(number=2), []),
    ]


def test_a_page_is_recognised_beside_any_number_of_downloaded_files(write):
    files = {f"a/{number}-0A1B2.html": "<html>" for number in range(250)}
    with open_export(write(files | {f"b/{FILE}": page(group(said()))})) as source:
        assert IMPORTER.recognises(source)


def test_a_huge_message_is_left_out_and_the_others_are_read(one, monkeypatch):
    monkeypatch.setattr(html_stream, "MAX_PIECE", 2000)
    embed = "<div class=chatlog__embed><div class=chatlog__embed-description>by nobody</div></div>"
    huge = said(2, text="a <div>b</div> " * 500, below=embed)
    result = one(group(said(1)), group(huge), group(said(3)))
    assert [message.external_id for message in result.messages] == [snowflake(number=1), snowflake(number=3)]
    assert result.reasons == ["element too long"]


def test_a_tag_that_never_ends_ends_the_page(one, monkeypatch):
    monkeypatch.setattr(html_stream, "MAX_PIECE", 2000)
    result = one(group(said(1)), "<!-- " + "x" * 200_000)
    assert [message.external_id for message in result.messages] == [snowflake(number=1)]
    assert result.reasons == ["not HTML"]


def test_deep_nesting_keeps_the_text(body):
    assert body("<span>" * 5000 + "deep" + "</span>" * 5000 + " end") == "deep end"


def test_odd_declarations_and_scripts_in_a_message_are_survived(body):
    assert body("a <![unknown[ x ]]> b <script>c</script> <style> d") == "a  b <script>c</script> <style> d"


def test_a_page_of_another_kind_gives_no_message(read, write):
    assert read(IMPORTER, write({"x.html": "<!DOCTYPE html><p>chatlog__message</p>"})).messages == []
