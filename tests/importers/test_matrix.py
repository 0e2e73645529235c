import json
from datetime import UTC, datetime

import pytest

from roomlore.importers.matrix.room_export import IMPORTER

ROOM = "!harbour:example.org"
ANA, BEN, CLEO = "@ana:example.org", "@ben:example.org", "@cleo:example.org"
START = 1_700_000_000_000


def at(seconds):
    return datetime.fromtimestamp(START / 1000 + seconds, UTC)


def event(id_, content, *, sender=ANA, second=0, kind="m.room.message", **more):
    return {
        "type": kind,
        "event_id": f"${id_}",
        "room_id": ROOM,
        "sender": sender,
        "origin_server_ts": START + second * 1000,
        "content": content,
    } | more


def said(id_, body="hello", *, sender=ANA, second=0, unsigned=None, **content):
    more = {"unsigned": unsigned} if unsigned else {}
    return event(id_, {"msgtype": "m.text", "body": body} | content, sender=sender, second=second, **more)


def state(kind, content, *, second=0, key="", sender=ANA, **more):
    name = f"{kind}{key}{second}"
    return event(name, content, kind=kind, state_key=key, sender=sender, second=second, **more)


def member(account, membership="join", *, second=0, sender=None, before=None, **content):
    more = {"unsigned": {"prev_content": before}} if before else {}
    return state(
        "m.room.member",
        {"membership": membership} | content,
        second=second,
        key=account,
        sender=sender or account,
        **more,
    )


def edit(id_, target, body, *, sender=ANA, second=9, **new):
    new_content = {"msgtype": "m.text", "body": body} | new
    relation = {"rel_type": "m.replace", "event_id": f"${target}"}
    content = {
        "msgtype": "m.text",
        "body": f"* {body}",
        "m.new_content": new_content,
        "m.relates_to": relation,
    }
    return event(id_, content, sender=sender, second=second)


def reacted(id_, target, key="👍", *, sender=BEN, second=9):
    relation = {"rel_type": "m.annotation", "event_id": f"${target}", "key": key}
    return event(id_, {"m.relates_to": relation}, kind="m.reaction", sender=sender, second=second)


def redacted(id_, target, *, second=9):
    return event(id_, {}, kind="m.room.redaction", second=second, redacts=f"${target}")


def element(*events, **more):
    head = {
        "room_name": "Harbour",
        "room_creator": "Ana",
        "topic": "Tides",
        "export_date": "x",
        "exported_by": "Ana",
    }
    return head | {"messages": list(events)} | more


@pytest.fixture
def one(read, write):
    """Read one export of Element."""

    def run(*events, **more):
        return read(IMPORTER, write({"export.json": element(*events, **more)}))

    return run


def test_a_message_keeps_what_its_event_says(one):
    message = one(said("a", "the tide is late", sender=BEN, **{"m.mentions": {"user_ids": [ANA]}})).only
    assert (message.platform, message.external_id, message.precision) == ("matrix", "$a", "ms")
    assert (message.room.external_id, message.room.name, message.room.topic) == (ROOM, "Harbour", "Tides")
    assert (message.room.kind, message.room.visibility, message.room.members) == (None, None, ())
    assert (message.author.account_id, message.author.name, message.author.kind) == (BEN, BEN, "human")
    assert (message.body, message.sent_at, message.mentions) == ("the tide is late", at(0), [ANA])
    assert not message.synthetic_id
    assert message.where == "export.json record 1"


def test_an_author_has_the_name_of_the_time_of_the_message(one):
    renamed = member(
        ANA, second=5, displayname="Ana B", before={"membership": "join", "displayname": "Ana A"}
    )
    result = one(member(BEN, displayname="Ben"), said("a", second=1), renamed, said("b", second=6))
    assert result.by_id("$a").author.name == "Ana A"
    assert result.by_id("$b").author.name == "Ana B"
    assert [message.body for message in result.messages if message.kind == "system"] == [
        "joined the room",
        "changed the name from Ana A to Ana B",
    ]


def test_the_quote_before_a_reply_is_no_text_of_its_author(one):
    reply = {"m.relates_to": {"m.in_reply_to": {"event_id": "$a"}}}
    result = one(
        said("a"),
        said("b", f"> <{ANA}> hello\n> again\n\nhi\n> my own quote", sender=BEN, **reply),
        said("c", f"> * <{ANA}> waves\n\nwaves back", sender=BEN, **reply | {"msgtype": "m.emote"}),
        said("d", "> a quotation\n\nand a text", sender=BEN, **reply),
        said("e", f"> <{ANA}> hello\n\nno reply", sender=BEN),
    )
    assert [message.body for message in result.messages[1:]] == [
        "hi\n> my own quote",
        "waves back",
        "> a quotation\n\nand a text",
        f"> <{ANA}> hello\n\nno reply",
    ]
    assert [message.reply_to for message in result.messages] == [None, "$a", "$a", "$a", None]
    assert result.by_id("$c").metadata == {"platform": {"action": True}}


def test_a_message_of_a_thread_is_a_reply_only_if_it_says_so(one):
    thread = {"rel_type": "m.thread", "event_id": "$a", "m.in_reply_to": {"event_id": "$b"}}
    result = one(
        said("a"),
        said("b", **{"m.relates_to": thread | {"is_falling_back": True}}),
        said("c", **{"m.relates_to": thread | {"is_falling_back": False}}),
        said("d", **{"m.relates_to": thread}),
    )
    assert [(message.thread_root, message.reply_to) for message in result.messages] == [
        (None, None),
        ("$a", None),
        ("$a", "$b"),
        ("$a", "$b"),
    ]


def test_the_newest_edit_by_the_author_counts_wherever_it_lies(one):
    result = one(
        edit("e2", "a", "third", second=7, **{"m.mentions": {"user_ids": [CLEO]}}),
        edit("e1", "a", "second", second=5),
        said("a", "first", sender=ANA),
        edit("e3", "a", "not mine", second=9, sender=BEN),
    )
    assert (result.only.body, result.only.edited_at, result.only.mentions) == ("third", at(7), [CLEO])
    assert result.only.metadata == {"platform": {"history_lost": True}}
    assert result.skipped == []


def test_an_edit_that_the_server_bundles_counts(one):
    bundled = edit("e", "a", "second", second=5)
    stated_only = {"event_id": "$f", "origin_server_ts": START + 6000, "sender": ANA}
    result = one(
        said("a", "first", unsigned={"m.relations": {"m.replace": bundled}}),
        said("b", "as edited", unsigned={"m.relations": {"m.replace": stated_only}}),
    )
    assert [(message.body, message.edited_at) for message in result.messages] == [
        ("second", at(5)),
        ("as edited", at(6)),
    ]


def test_a_removed_edit_does_not_count(one):
    assert one(said("a", "first"), edit("e", "a", "second"), redacted("r", "e")).only.body == "first"


def test_an_edited_reply_stays_a_reply(one):
    relation = {"m.relates_to": {"m.in_reply_to": {"event_id": "$a"}}}
    result = one(said("a"), said("b", "helo", **relation), edit("e", "b", f"> <{ANA}> hello\n\nhello"))
    assert (result.by_id("$b").body, result.by_id("$b").reply_to) == ("hello", "$a")


def test_a_removed_message_keeps_its_place_only(one):
    because = {"redacted_because": redacted("r", "a"), "redacted_by": "$r"}
    result = one(
        event("a", {}, unsigned=because),
        said("b", "secret", second=1),
        redacted("s", "b"),
        event("c", {}, kind="m.room.encrypted", unsigned=because),
    )
    assert [(message.external_id, message.body, message.deleted) for message in result.messages] == [
        ("$a", "", True),
        ("$b", "", True),
        ("$c", "", True),
    ]
    assert result.by_id("$b").raw is None
    assert result.skipped == []


def test_the_target_of_a_removal_may_be_named_in_the_content(one):
    removal = event("r", {"redacts": "$a"}, kind="m.room.redaction")
    assert one(said("a", "secret"), removal).only.deleted


def test_reactions_belong_to_their_targets(one):
    stated = {"m.relations": {"m.annotation": {"chunk": [{"type": "m.reaction", "key": "👍", "count": 5}]}}}
    result = one(
        reacted("r1", "a"),
        said("a"),
        reacted("r2", "a", "🎉"),
        reacted("r3", "a", "🎉", sender=CLEO),
        reacted("r4", "a", "👎"),
        redacted("x", "r4"),
        said("b", unsigned=stated),
    )
    assert result.by_id("$a").reactions == [
        {"emoji": "👍", "count": 1, "by": [BEN]},
        {"emoji": "🎉", "count": 2, "by": [BEN, CLEO]},
    ]
    assert result.by_id("$b").reactions == [{"emoji": "👍", "count": 5}]
    assert len(result.items) == 2


def test_what_changes_a_message_that_is_not_there_is_reported(one):
    result = one(said("a"), edit("e", "x", "new"), reacted("r", "y"), redacted("s", "z"))
    assert result.only.external_id == "$a"
    assert sorted(result.reasons) == [
        "edit of a missing message",
        "reaction to a missing message",
        "redaction of a missing message",
    ]
    assert {skipped.where for skipped in result.skipped} == {f"export.json record {n}" for n in (2, 3, 4)}


def test_each_message_that_cannot_be_decrypted_is_reported(one):
    sealed = event("b", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}, kind="m.room.encrypted")
    relation = {"m.relates_to": {"rel_type": "m.replace", "event_id": "$a"}}
    sealed_edit = event("d", {"ciphertext": "x"} | relation, kind="m.room.encrypted")
    result = one(
        said("a"), sealed, said("c", "** Unable to decrypt **", msgtype="m.bad.encrypted"), sealed_edit
    )
    assert (result.only.external_id, result.only.edited_at) == ("$a", None)
    assert result.reasons == ["encrypted", "encrypted", "encrypted"]


def test_files_places_stickers_and_polls_are_attachments(one):
    answers = [
        {"id": "1", "org.matrix.msc1767.text": "Pier"},
        {"id": "2", "org.matrix.msc1767.text": "Office"},
    ]
    old_poll = {"question": {"org.matrix.msc1767.text": "Where?"}, "answers": answers}
    new_poll = {
        "question": {"m.text": [{"body": "When?"}]},
        "answers": [{"m.id": "1", "m.text": [{"body": "Noon"}]}],
    }
    key = {"k": "secret", "kty": "oct"}
    result = one(
        said("a", "pier.jpg", msgtype="m.image", url="mxc://example.org/a", info={"size": 7}),
        said(
            "b",
            "the old one",
            msgtype="m.file",
            filename="b.pdf",
            file={"url": "mxc://example.org/b", "key": key},
        ),
        said("c", "note.ogg", msgtype="m.audio", **{"org.matrix.msc3245.voice": {}}),
        said("d", "The pier", msgtype="m.location", geo_uri="geo:51.5,0.1"),
        event("e", {"body": "wave", "url": "mxc://example.org/e"}, kind="m.sticker"),
        event("f", {"org.matrix.msc3381.poll.start": old_poll}, kind="org.matrix.msc3381.poll.start"),
        event("g", {"m.poll": new_poll}, kind="m.poll.start"),
    )
    assert [list(message.attachments) for message in result.messages] == [
        [{"type": "image", "name": "pier.jpg", "url": "mxc://example.org/a", "size": 7}],
        [{"type": "file", "name": "b.pdf", "url": "mxc://example.org/b"}],
        [{"type": "voice message", "name": "note.ogg"}],
        [{"type": "location", "name": "The pier", "text": "51.5,0.1"}],
        [{"type": "sticker", "name": "wave", "url": "mxc://example.org/e"}],
        [{"type": "poll", "name": "Where?", "options": ["Pier", "Office"]}],
        [{"type": "poll", "name": "When?", "options": ["Noon"]}],
    ]
    assert [message.body for message in result.messages] == ["", "the old one", "", "", "", "", ""]
    assert "secret" not in json.dumps(result.by_id("$b").raw)


def test_notices_are_marked_and_notices_of_the_server_are_from_the_system(one):
    result = one(said("a", msgtype="m.notice"), said("b", msgtype="m.server_notice"))
    assert [(message.kind, message.metadata) for message in result.messages] == [
        ("message", {"platform": {"notice": True}}),
        ("system", {"platform": {"notice": True}}),
    ]


def test_events_that_say_nothing_to_people_are_left_out(one):
    result = one(
        said("a"),
        state("m.room.power_levels", {"users": {}}),
        said("b", msgtype="m.key.verification.request"),
        event("c", {"call_id": "1"}, kind="m.call.invite"),
        said("d", "not an event") | {"content": {}},
    )
    assert result.only.external_id == "$a"
    assert result.reasons == ["not a message", "not a message", "no text"]


@pytest.mark.parametrize(
    ("join_rule", "history", "visibility"),
    [
        ("public", "shared", "open"),
        ("public", "world_readable", "open"),
        ("public", "joined", "members"),
        ("public", None, None),
        (None, "shared", None),
        (None, "invited", "members"),
        ("invite", "shared", "members"),
        ("invite", "world_readable", "members"),
        ("restricted", None, "members"),
        (None, None, None),
    ],
)
def test_only_a_room_that_anybody_may_join_and_read_is_open(one, join_rule, history, visibility):
    events = [said("a", second=5)]
    if join_rule:
        events.append(state("m.room.join_rules", {"join_rule": join_rule}))
    if history:
        events.append(state("m.room.history_visibility", {"history_visibility": history}))
    room = one(*events).only.room
    assert room.visibility == visibility
    # A room without a join rule may be a direct one.
    assert room.kind == ("channel" if join_rule else None)


def test_the_newest_state_describes_the_room(one):
    result = one(
        state("m.room.name", {"name": "New"}, second=5),
        state("m.room.name", {"name": "Old"}, second=1),
        state("m.room.topic", {"topic": "Ships"}),
    )
    assert {(message.room.name, message.room.topic) for message in result.messages} == {("New", "Ships")}
    assert [message.body for message in result.messages] == [
        "renamed the room: New",
        "renamed the room: Old",
        "changed the topic: Ships",
    ]


def periods(message):
    return sorted((one.author.account_id, one.joined_at, one.left_at) for one in message.room.members)


def test_members_are_there_from_their_join_to_their_leave(one):
    result = one(
        state("m.room.create", {}),
        member(ANA, second=1),
        member(BEN, "invite", sender=ANA, second=2),
        member(BEN, second=3),
        member(BEN, "leave", second=5, sender=ANA, reason="spam"),
        member(BEN, second=8),
        member(CLEO, "invite", sender=ANA, second=9),
        member(CLEO, "ban", sender=ANA, second=10),
        said("a", second=11),
    )
    assert periods(result.by_id("$a")) == [
        (ANA, at(1), None),
        (BEN, at(3), at(5)),
        (BEN, at(8), None),
    ]
    assert [message.body for message in result.messages if message.kind == "system"] == [
        "joined the room",
        f"invited {BEN}",
        "joined the room",
        f"removed {BEN}: spam",
        "joined the room",
        f"invited {CLEO}",
        f"banned {CLEO}",
    ]


def test_a_part_of_a_room_lists_no_members_because_others_may_be_there(one):
    result = one(member(BEN, second=1), said("a", second=5))
    assert result.by_id("$a").room.members == ()


def test_whoever_leaves_in_a_part_of_a_room_is_stated_to_be_gone(one):
    left = member(BEN, "leave", second=6, before={"membership": "join"})
    renamed = member(CLEO, displayname="Cleo", second=7, before={"membership": "join", "displayname": "C"})
    result = one(said("a", second=1), said("b", sender=BEN, second=2), left, renamed)
    assert periods(result.by_id("$a")) == [(ANA, at(1), None), (BEN, at(2), at(6)), (CLEO, at(7), None)]


def test_both_people_of_a_direct_room_read_all_of_it(one):
    invited = member(BEN, "invite", sender=ANA, is_direct=True, displayname="Ben")
    room = one(invited, member(ANA), member(BEN, second=4), said("a", second=9)).by_id("$a").room
    assert (room.kind, room.visibility) == ("dm", "members")
    assert {(one.author.account_id, one.joined_at) for one in room.members} == {(ANA, None), (BEN, None)}


def test_a_direct_room_of_more_people_is_a_group(one):
    invited = member(BEN, "invite", sender=ANA, is_direct=True)
    room = one(invited, member(ANA), member(CLEO, second=4), said("a", second=9)).by_id("$a").room
    assert (room.kind, room.visibility) == ("group_dm", "members")


def test_pages_may_overlap_and_list_the_newest_event_first(read, write):
    newest = {
        "chunk": [reacted("r", "a", second=4), said("c", second=3), said("b", second=2)],
        "start": "t9",
        "end": "t5",
    }
    oldest = {
        "chunk": [said("b", second=2), said("a", second=2)],
        "start": "t5",
        "end": "t1",
        "state": [member(ANA, displayname="Ana")],
    }
    result = read(IMPORTER, write({"1.json": newest, "2.json": oldest}))
    assert [message.external_id for message in result.messages] == ["$c", "$b", "$b", "$a"]
    assert result.by_id("$a").reactions == [{"emoji": "👍", "count": 1, "by": [BEN]}]
    assert {message.author.name for message in result.messages} == {"Ana"}
    assert result.skipped == []


def test_events_of_the_same_time_keep_the_order_of_the_room(read, write):
    downwards = {"chunk": [said("c", second=3), said("b"), said("a")], "start": "t9"}
    upwards = {"chunk": [said("x"), said("y"), said("z", second=1)], "start": "t9"}
    result = read(IMPORTER, write({"1.json": downwards, "2.json": upwards}))
    assert result.by_id("$a").order < result.by_id("$b").order
    assert result.by_id("$x").order < result.by_id("$y").order


def test_a_response_to_sync_names_its_rooms_around_the_events(read, write):
    def without_room(fields):
        return {key: value for key, value in fields.items() if key != "room_id"}

    rooms = {
        ROOM: {
            "summary": {"m.joined_member_count": 1},
            "state": {
                "events": [
                    without_room(one) for one in (state("m.room.create", {}), member(ANA, displayname="Ana"))
                ]
            },
            "timeline": {"events": [without_room(said("a", second=1))], "limited": False},
            "ephemeral": {"events": [{"type": "m.receipt", "content": {}}]},
        }
    }
    sync = {"next_batch": "s1", "presence": {"events": []}, "rooms": {"join": rooms, "invite": {}}}
    message = read(IMPORTER, write({"sync.json": sync})).only
    assert (message.external_id, message.room.external_id, message.author.name) == ("$a", ROOM, "Ana")
    assert periods(message) == [(ANA, at(0), None)]
    rooms[ROOM]["summary"]["m.joined_member_count"] = 2
    assert read(IMPORTER, write({"sync.json": sync})).only.room.members == ()


def test_events_may_be_lines_and_one_broken_line_costs_only_itself(read, write):
    lines = [
        json.dumps(said("a")),
        "{broken",
        "",
        json.dumps({"chunk": [said("b"), 7]}),
        json.dumps([said("c")]),
    ]
    result = read(IMPORTER, write({"events.jsonl": "\n".join(lines)}))
    assert [message.external_id for message in result.messages] == ["$a", "$b", "$c"]
    assert [(skipped.where, skipped.reason) for skipped in result.skipped] == [
        ("events.jsonl line 2", "damaged JSON"),
        ("events.jsonl line 4 record 2", "not an object"),
    ]


def test_a_removed_state_is_not_missing(read, write):
    topic = state("m.room.topic", {}, unsigned={"redacted_by": "$r"})
    page = {"chunk": [said("a"), redacted("r", "m.room.topic0")], "state": [topic]}
    result = read(IMPORTER, write({"page.json": page}))
    assert (result.only.external_id, result.skipped) == ("$a", [])


def test_the_context_of_an_event_is_read(read, write):
    context = {
        "events_before": [said("b", second=2), said("a", second=1)],
        "event": said("c", second=3),
        "events_after": [said("d", second=4)],
        "state": [state("m.room.name", {"name": "Pier"})],
    }
    result = read(IMPORTER, write({"context.json": context}))
    assert {message.external_id for message in result.messages} == {"$a", "$b", "$c", "$d"}
    assert {message.room.name for message in result.messages} == {"Pier"}


def test_an_attached_file_that_looks_like_an_export_is_not_read(read, write):
    result = read(IMPORTER, write({"export.json": element(said("a")), "files/x.json": element(said("b"))}))
    assert result.only.external_id == "$a"
    assert result.reasons == ["export among attachments"]


def test_a_record_without_what_identifies_it_is_named(one):
    events = [said("a")]
    for key in ("event_id", "sender", "origin_server_ts", "type"):
        broken = said("b")
        del broken[key]
        events.append(broken)
    before_all_time = member(BEN, displayname="Ben") | {"origin_server_ts": -62_135_596_800_000}
    result = one(*events, before_all_time)
    assert result.only.external_id == "$a"
    assert result.reasons == ["no id", "no author", "no time", "not a message", "no time"]


def test_an_export_without_room_ids_is_a_room_of_its_own(one):
    nameless = said("a")
    del nameless["room_id"]
    assert one(nameless).only.room.external_id == "name:Harbour"
    assert one(nameless, room_name=None).reasons == ["no room"]
