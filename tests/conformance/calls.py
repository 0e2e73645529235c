"""The table of calls: for each declared operation what it is asked, by whom, and how other surfaces spell it.

A new operation needs an entry here. `$name` in an argument stands for an id of the story in `conformance.story`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.stories import at
from roomlore.agents.reply_policy import ReplyPolicy
from roomlore.domain.errors import BadInput, NotAllowed, NotFound, RoomloreError

RECORD = {
    "platform": "campfire",
    "room": "kitchen",
    "id": "1",
    "author": "ana",
    "text": "No flour.",
    "sent_at": "2026-01-01T00:00:00Z",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of an operation."""

    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    who: str = "operator"
    #: The error that the call ends in; None: it succeeds.
    error: type[RoomloreError] | None = None
    #: The MCP tool that makes this call, and its arguments.
    tool: tuple[str, Mapping[str, Any]] | None = None
    #: The words of a verb written by hand. A derived verb gets its words from `given`.
    words: str | None = None
    #: Fields that the verb prints beside the result.
    printed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: False: no verb can say this.
    has_verb: bool = True


def says(error: type[RoomloreError] | None = None, who: str = "operator", /, **given: Any) -> Call:
    """Return a call without spellings of its own."""
    return Call(given=given, who=who, error=error)


CALLS: Mapping[str, list[Call]] = {
    "agents.reader": [says(agent="pip"), says(None, "pip", agent="pip"), says(NotAllowed, "pip", agent="bo")],
    "agents.memories": [
        says(None, "pip", agent="pip", newest=True, kinds=["insight"], tags=["food"], limit=5),
        says(agent="pip"),
        says(BadInput, agent="bo"),
        says(None, "ana", agent="pip"),
    ],
    "agents.experiences": [
        says(None, "pip", agent="pip", present=["bo"], limit=3),
        says(NotFound, agent="nobody"),
    ],
    "agents.relationships": [
        says(None, "pip", agent="pip", present=["bo"]),
        says(agent="pip"),
        says(NotAllowed, "bo", agent="pip"),
    ],
    "agents.set_trust": [
        says(None, "pip", agent="pip", participant="bo", trust=0.8),
        says(agent="pip", participant="bo", trust=0.0),
        says(NotAllowed, "bo", agent="pip", participant="bo", trust=1.0),
        says(BadInput, agent="pip", participant="pip", trust=0.5),
    ],
    "agents.withdraw_trust": [
        says(None, "pip", agent="pip", participant="bo"),
        says(agent="pip", participant="bo"),
        says(NotAllowed, "bo", agent="pip", participant="bo"),
        says(NotFound, agent="pip", participant="nobody"),
    ],
    "agents.memory_section": [
        # The verb prints less than the whole section.
        Call(who="pip", given={"room": "square", "trigger": "m1", "budget": 200}, has_verb=False),
        Call(who="pip", given={"room": "square", "topic": "stairs", "present": []}, has_verb=False),
        Call(
            who="pip",
            given={"room": "attic"},
            error=NotFound,
            words="agents memory-section pip attic",
        ),
        Call(given={"room": "square"}, error=BadInput, has_verb=False),
    ],
    "agents.should_answer": [
        Call(who="pip", given={"room": "square", "trigger": "m1"}, words="agents decide pip square --at m1"),
        Call(
            who="pip",
            given={"room": "square", "limits": ReplyPolicy(max_own=1, threshold=0.5)},
            has_verb=False,
        ),
        Call(who="pip", given={"room": "nowhere"}, error=NotFound, words="agents decide pip nowhere"),
    ],
    "agents.record_reply": [
        Call(
            who="pip",
            given={"room": "square", "trigger": "m2", "reply": "m3"},
            words="agents record-reply pip square m2 m3",
            printed={"recorded": True},
        ),
        Call(
            who="bo",
            given={"room": "square", "trigger": "m2", "reply": "m3"},
            error=NotAllowed,
            has_verb=False,
        ),
    ],
    "agents.reset_context": [says(room="square"), says(None, "pip", room="square"), says(NotFound, room="x")],
    "agents.set_injection": [
        Call(
            given={"room": "square", "on": False},
            words="agents injection square off",
            printed={"injects": False},
        ),
        Call(
            who="ana",
            given={"room": "square", "on": True},
            error=NotAllowed,
            words="agents injection square on",
        ),
    ],
    "conversations.all": [says(), says(None, "cy", room="cellar", limit=1), says(NotFound, "ana", room="x")],
    "conversations.move": [
        says(message="m5", to="message:m4"),
        says(BadInput, message="m5", to="message:m1"),
        says(NotFound, "ana", message="m7", to="message:m6"),
    ],
    "conversations.split": [
        says(messages=["m4"], label="About the roof", room="attic"),
        says(BadInput, messages=["m1", "m4"]),
    ],
    "conversations.merge": [
        says(conversation="message:m1", other="$apart"),
        says(BadInput, conversation="message:m1", other="message:m1"),
        says(NotFound, "ana", conversation="message:m1", other="message:m7"),
        says(NotFound, "ana", conversation="message:zzz", other="message:m1"),
        says(BadInput, conversation="message:m1", other="message:m4"),
        says(BadInput, conversation="message:m4", other="message:m8"),
    ],
    "conversations.rename": [
        says(conversation="message:m4", label="The roof"),
        says(NotFound, "bo", conversation="message:m7", label="x"),
        says(NotAllowed, "pip", conversation="message:m1", label="x"),
    ],
    "conversations.set_sensitivity": [
        says(conversation="message:m4", sensitivity="sensitive"),
        says(NotAllowed, "pip", conversation="message:m1", sensitivity="normal"),
    ],
    "conversations.close": [says(conversation="message:m4"), says(NotFound, conversation="ffff")],
    "erasure.redact": [
        Call(
            given={"message": "m5", "room": "attic"},
            words="redact m5 --room attic --yes",
            printed={"is_dry_run": False},
        ),
        Call(
            who="bo",
            given={"message": "m5", "dry_run": True},
            words="redact m5 --dry-run",
            printed={"is_dry_run": True},
        ),
        Call(who="bo", given={"message": "m4"}, error=NotAllowed, words="redact m4 --yes"),
    ],
    "erasure.receipts": [
        Call(words="receipts"),
        Call(who="cy", given={"limit": 1}, words="receipts --limit 1"),
    ],
    "erasure.receipt": [
        Call(given={"receipt": "$receipt"}, words="receipts $receipt"),
        Call(given={"receipt": "ffff"}, error=NotFound, words="receipts ffff"),
    ],
    "erasure.verify": [Call(given={"receipt": "$receipt"}, words="receipts $receipt --verify")],
    "erasure.set_retention": [
        Call(
            given={"room": "square", "retention_period": timedelta(days=30), "dry_run": True},
            words="retention square 30d --dry-run",
        ),
        Call(
            given={"room": "square", "retention_period": timedelta(days=30)},
            words="retention square 30d --yes",
        ),
        Call(given={"room": "square", "retention_period": None}, words="retention square forever"),
        Call(
            who="bo",
            given={"room": "square", "retention_period": None, "dry_run": True},
            error=NotAllowed,
            words="retention square forever --dry-run",
        ),
    ],
    "erasure.erase_expired": [
        says(),
        says(BadInput, now=datetime(2999, 1, 1, tzinfo=UTC)),
        says(NotAllowed, "bo"),
    ],
    "intake.add_messages": [
        says(messages=[RECORD, {"id": "2"}, 3, RECORD]),
        says(NotAllowed, "bo", messages=[RECORD]),
    ],
    "intake.send": [
        Call(
            who="pip",
            given={
                "room": "square",
                "text": "For Eve.",
                "reply_to": "m2",
                "to": ["eve"],
                "external_id": "p1",
            },
        ),
        Call(
            who="pip",
            given={"room": "square", "text": "The oven is hot.", "reply_to": "m1", "to": ["eve"]},
            tool=(
                "message_send",
                {"room": "square", "text": "The oven is hot.", "reply_to": "m1", "to": ["eve"]},
            ),
            has_verb=False,
        ),
        Call(who="pip", given={"room": "square", "text": "x", "metadata": {"mood": "fine"}}, has_verb=False),
        Call(
            who="pip",
            given={"room": "attic", "text": "Hello?"},
            error=NotFound,
            tool=("message_send", {"room": "attic", "text": "Hello?"}),
        ),
        says(NotAllowed, "ana", room="square", text="Hello."),
        says(BadInput, room="square", text="Hello."),
    ],
    "intake.edit": [
        Call(
            who="pip",
            given={"message": "m3", "text": "village, better"},
            tool=("correct", {"message": "m3", "text": "village, better"}),
        ),
        says(message="m1", text="village, best", room="square"),
        Call(
            who="pip",
            given={"message": "m1", "text": "x"},
            error=NotAllowed,
            tool=("correct", {"message": "m1", "text": "x"}),
        ),
    ],
    "keys.create": [
        says(role="member", name="phone", participant="bo", valid_for=timedelta(days=1)),
        says(BadInput, role="member", name="nobody's"),
        says(NotAllowed, "bo", role="operator", name="mine"),
    ],
    "keys.all": [says(), says(NotAllowed, "bo")],
    "keys.revoke": [says(key="$key"), says(NotFound, key="ffff"), says(NotAllowed, "bo", key="ffff")],
    "memories.remember": [
        says(
            content="Bo eats no nuts.",
            kind="preference",
            title="Nuts",
            importance=4.5,
            confidence=0.5,
            sources=["m1"],
            occurred_at=datetime(2024, 3, 1, tzinfo=UTC),
            metadata={"n": [1, {"x": None}]},
            room="square",
            about=["bo"],
            involving=["eve"],
            tags=["nuts", "bakery"],
            task="bake",
            sensitive=True,
        ),
        Call(
            who="pip",
            given={
                "content": "Flour comes on Fridays.",
                "sources": ["m3"],
                "about": ["bo"],
                "kind": "lesson",
                "room": "square",
                "occurred_at": datetime(2024, 3, 1, tzinfo=UTC),
            },
            tool=(
                "remember",
                {
                    "content": "Flour comes on Fridays.",
                    "sources": ["m3"],
                    "about": ["bo"],
                    "kind": "lesson",
                    "room": "square",
                    "occurred_at": "2024-03-01",
                },
            ),
            has_verb=False,
        ),
        says(content="Bo eats nuts.", supersedes="$insight", by="pip", audience="org"),
        says(NotAllowed, "bo", content="x"),
        Call(
            who="pip",
            given={"content": "x", "sources": ["m4"]},
            error=NotFound,
            tool=("remember", {"content": "x", "sources": ["m4"]}),
        ),
    ],
    "memories.correct": [
        Call(
            given={"memory": "$kept", "content": "The ladder of word4 is broken."},
            tool=("correct", {"memory": "$kept", "text": "The ladder of word4 is broken."}),
        ),
        Call(
            who="eve",
            given={"memory": "$kept", "content": "x"},
            error=NotFound,
            tool=("correct", {"memory": "$kept", "text": "x"}),
        ),
    ],
    "memories.archive": [
        Call(given={"memory": "$kept"}, tool=("forget", {"memory": "$kept"})),
        Call(given={"memory": "ffff"}, error=NotFound, tool=("forget", {"memory": "ffff"})),
    ],
    "memories.restore": [says(memory="$gone"), says(NotFound, "eve", memory="$gone")],
    "memories.all": [
        Call(tool=("memory_search", {}), given={"limit": 10}),
        Call(who="pip", given={"about": "bo"}, tool=("memory_search", {"about": "bo"})),
        says(context="project-7"),
        says(
            statuses=["active", "archived"],
            kinds=["fact", "insight"],
            tags=["food"],
            since=at(-9999),
            as_of=datetime(2999, 1, 1, tzinfo=UTC),
            seen_by="pip",
            by="pip",
            room="square",
            task="bake",
        ),
        Call(given={"kinds": []}, has_verb=False),
        Call(
            who="ana",
            given={"about": "zoe"},
            error=NotFound,
            tool=("memory_search", {"about": "zoe"}),
        ),
    ],
    "memories.digest": [
        Call(given={"room": "square"}, tool=("room_digest", {"room": "square"})),
        Call(
            who="pip",
            given={"room": "square", "since": at(-9999), "limit": 1},
            tool=("room_digest", {"room": "square", "since": at(-9999), "limit": 1}),
        ),
        says(NotFound, "ana", room="nowhere"),
    ],
    "memories.search": [
        Call(given={"question": "word4 stairs"}, tool=("memory_search", {"question": "word4 stairs"})),
        Call(
            who="eve",
            given={"question": "word4 stairs", "limit": 1},
            tool=("memory_search", {"question": "word4 stairs", "limit": 1}),
        ),
    ],
    "memories.derived_from": [
        Call(
            given={"message": "m4", "room": "attic", "limit": 50},
            words="memory provenance m4 --message --room attic",
        ),
        Call(who="eve", given={"message": "m4"}, error=NotFound, words="memory provenance m4 --message"),
    ],
    "memories.provenance": [
        Call(
            given={"memory": "$kept"},
            tool=("memory_provenance", {"memory": "$kept"}),
            words="memory provenance $kept",
        ),
        Call(
            who="eve",
            given={"memory": "$kept"},
            error=NotFound,
            tool=("memory_provenance", {"memory": "$kept"}),
            words="memory provenance $kept",
        ),
    ],
    "monitoring.statistics": [says(), says(NotAllowed, "bo")],
    "monitoring.job_state": [says(), says(NotAllowed, "bo")],
    "monitoring.set_embedding_policy": [
        says(room="square", policy="thread"),
        says(NotFound, room="nowhere", policy="thread"),
        says(NotAllowed, "bo", room="square", policy="message"),
    ],
    "people.accounts": [
        Call(who="eve", has_verb=False),
        Call(given={"participant": "cy"}, words="people cy"),
        Call(who="eve", given={"participant": "cy"}, error=NotFound, words="people cy"),
    ],
    "people.register": [
        says(name="Quill", platform="discord", account="4711"),
        Call(given={"name": "Zoe", "kind": "human"}, has_verb=False),
        says(BadInput, name="A\x07"),
        says(NotAllowed, "pip", name="D"),
    ],
    "people.merge": [
        says(one="ana", other="ana_home"),
        says(BadInput, one="ana", other="pip"),
        says(NotAllowed, "bo", one="bo", other="cy"),
    ],
    "people.split": [
        says(account="dee_home"),
        says(BadInput, account="ana"),
        says(NotAllowed, "bo", account="dee_home"),
    ],
    "room_admin.open": [
        Call(given={"room": "attic", "dry_run": True}, words="rooms open attic --dry-run"),
        Call(given={"room": "attic"}, words="rooms open attic --yes"),
        Call(who="bo", given={"room": "attic"}, error=NotAllowed, words="rooms open attic --yes"),
    ],
    "room_admin.close": [
        says(room="square"),
        says(NotFound, room="nowhere"),
        says(NotAllowed, "bo", room="square"),
    ],
    "room_admin.rename": [
        says(room="attic", name="  the   loft "),
        says(BadInput, room="attic", name=" "),
        says(NotAllowed, "bo", room="attic", name="x"),
    ],
    "room_admin.set_context": [
        says(room="attic", context="project-7"),
        says(room="attic"),
        says(NotAllowed, "bo", room="attic", context="x"),
    ],
    "room_admin.members": [
        Call(given={"room": "attic"}, words="rooms members attic"),
        Call(who="bo", given={"room": "attic"}, error=NotAllowed, words="rooms members attic"),
    ],
    "room_admin.add_member": [
        Call(
            given={"room": "attic", "participant": "eve", "since": at(5)},
            words=f"rooms members attic --add eve --since {at(5).isoformat().removesuffix('+00:00')}Z",
        ),
        Call(
            given={"room": "cellar", "participant": "eve", "always": True},
            words="rooms members cellar --add eve --since always",
        ),
        Call(
            given={"room": "attic", "participant": "zoe"},
            error=NotFound,
            words="rooms members attic --add zoe",
        ),
    ],
    "room_admin.remove_member": [
        Call(given={"room": "attic", "participant": "bo"}, words="rooms members attic --remove bo"),
        Call(
            who="bo",
            given={"room": "attic", "participant": "bo"},
            error=NotAllowed,
            words="rooms members attic --remove bo",
        ),
    ],
    "privacy_requests.all": [says(), says(status="active", room="square", limit=5), says(None, "bo")],
    "privacy_requests.counts": [says(), says(None, "bo")],
    "privacy_requests.restrictions_on": [
        says(message_ids=["$secret"]),
        says(None, "bo", message_ids=["$secret"]),
    ],
    "privacy_requests.apply": [
        says(request="$proposed"),
        says(None, "ana", request="$proposed"),
        says(BadInput, request="$wish"),
        says(NotFound, "bo", request="$wish"),
    ],
    "privacy_requests.dismiss": [
        says(request="$wish"),
        says(None, "ana", request="$wish"),
        says(NotFound, "bo", request="$wish"),
    ],
    "privacy_requests.mode": [Call(words="privacy mode")],
    "privacy_requests.set_mode": [
        Call(given={"mode": "propose"}, words="privacy mode propose"),
        Call(who="bo", given={"mode": "off"}, error=NotAllowed, words="privacy mode off"),
    ],
}
#: Tools that call methods of the App which no declaration describes; tests/surfaces/mcp proves what they show.
TOOLS_OF_OTHER_METHODS = {
    "room_list", "people_list", "room_read", "message_read", "room_context", "room_search", "ask",
}  # fmt: skip
