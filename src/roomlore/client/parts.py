"""What can be done with the parts of an org, wherever its rooms are: the protocols that an App's and a Client's satisfy.

What each call returns and raises is told by the App's own.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Unpack

from roomlore.agents.deciding import USUAL, Decision, Limits
from roomlore.agents.trust import Relationship
from roomlore.app.agents import Looked
from roomlore.app.asserting import Details
from roomlore.app.intake import BatchTaken
from roomlore.app.keys import NewKey
from roomlore.app.memories import Wanted
from roomlore.app.operations import EmbeddingPolicy, Numbers, PolicyChange, State
from roomlore.app.people import OWN_PLATFORM
from roomlore.app.rooms import RoomOpening
from roomlore.app.wishes import SpokenWish, WishCounts, WishMode, WishStatus
from roomlore.context.memoryblock import DEFAULT_BUDGET, MemoryBlock
from roomlore.domain.ids import KeyId, MessageId, RoomId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.members import RoomMember
from roomlore.domain.names import LAST
from roomlore.domain.receipts import Receipt
from roomlore.domain.records import (
    Account,
    ApiKey,
    Conversation,
    Memory,
    MemoryKind,
    Placed,
    Provenance,
    Sensitivity,
    Viewer,
)
from roomlore.domain.retention import Retention
from roomlore.domain.roles import Role
from roomlore.retrieval.records import Recalled, Withheld


class SomePeople(Protocol):
    """Whose accounts the participants are."""

    async def accounts(self, viewer: Viewer, word: str | None = None) -> list[Account]:
        """Return the accounts of a person, or of everybody."""
        ...

    async def register(
        self,
        name: str,
        *,
        kind: ParticipantKind = "agent",
        platform: str = OWN_PLATFORM,
        account: str | None = None,
    ) -> Account:
        """Add a participant who has not spoken yet and return their account."""
        ...

    async def merge(self, one: str, other: str) -> list[Account]:
        """Say that two participants are accounts of one person, and return all accounts of it."""
        ...

    async def split(self, account: str) -> list[Account]:
        """Say that a participant is a person of its own, and return the accounts it was parted from."""
        ...


class SomeKeys(Protocol):
    """Who may come in."""

    async def make(
        self, role: Role, *, name: str, participant: str | None = None, lasts: timedelta | None = None
    ) -> NewKey:
        """Make a key and return it, this once."""
        ...

    async def all(self) -> list[ApiKey]:
        """Return every key of the org, newest first: never the key itself."""
        ...

    async def revoke(self, key_id: str) -> KeyId:
        """Make a key invalid from now on and return its id."""
        ...


class SomeMemories(Protocol):
    """What is durably known."""

    async def remember(self, content: str, **details: Unpack[Details]) -> Memory:
        """Keep a statement of the caller's and return it."""
        ...

    async def correct(self, memory: str, content: str) -> Memory:
        """Put what is right in the place of a memory and return it."""
        ...

    async def forget(self, memory: str) -> Memory:
        """Put a memory aside and return it."""
        ...

    async def restore(self, memory: str) -> Memory:
        """Let a memory stand again and return it."""
        ...

    async def all(self, viewer: Viewer, *, limit: int = 50, **wanted: Unpack[Wanted]) -> list[Memory]:
        """Return the newest memories that the viewer may see, newest first."""
        ...

    async def search(self, viewer: Viewer, question: str, *, limit: int = 10) -> list[Recalled]:
        """Return the memories that fit a question by their words, each as it stands now, best first."""
        ...

    async def resting_on(
        self, viewer: Viewer, message: str, *, room: str | None = None, limit: int = 50
    ) -> list[Memory]:
        """Return the newest memories that rest on a message, whatever became of them, newest first."""
        ...

    async def why(self, viewer: Viewer, memory: str) -> Provenance:
        """Return a memory with the messages it rests on."""
        ...


class SomeAgents(Protocol):
    """What agents remember, and make of whom they met."""

    async def reader(self, agent: str) -> Viewer:
        """Return an agent as the viewer that it is."""
        ...

    async def memories(
        self, viewer: Viewer, agent: str, *, limit: int = 50, **looked: Unpack[Looked]
    ) -> list[Memory]:
        """Return the memories that stand of what an agent saw."""
        ...

    async def experiences(
        self,
        viewer: Viewer,
        agent: str,
        *,
        topic: str | None = None,
        present: Sequence[str] = (),
        limit: int = 10,
    ) -> Mapping[MemoryKind, Sequence[Memory]]:
        """Return what an agent remembers for a conversation, by kind."""
        ...

    async def relationships(
        self, viewer: Viewer, agent: str, *, present: Sequence[str] = ()
    ) -> list[Relationship]:
        """Return what an agent makes of whom it met, most trusted first."""
        ...

    async def block(
        self,
        viewer: Viewer,
        room: str,
        trigger: str = LAST,
        *,
        topic: str | None = None,
        present: Sequence[str] | None = None,
        budget: int = DEFAULT_BUDGET,
        private: bool = False,
    ) -> MemoryBlock:
        """Return what an agent remembers that may matter in a room."""
        ...

    async def should_answer(
        self, viewer: Viewer, room: str, trigger: str = LAST, *, limits: Limits = USUAL
    ) -> Decision:
        """Return whether an agent should answer a message of a room, and why."""
        ...

    async def note_reply(self, room: str, *, trigger: str, reply: str) -> None:
        """Have an answer of the caller's remembered, if it is worth it."""
        ...

    async def compact(self, room: str) -> datetime:
        """Say that the agents of a room begin anew there; return from when."""
        ...

    async def inject(self, room: str, *, is_on: bool) -> None:
        """Say whether the agents of a room are given unasked what they may know."""
        ...


class SomeWishes(Protocol):
    """What was wished in rooms to be forgotten, or kept from some."""

    async def all(
        self,
        viewer: Viewer,
        *,
        room: str | None = None,
        status: WishStatus | None = None,
        limit: int = 50,
    ) -> list[SpokenWish]:
        """Return the newest wishes that the viewer voiced, or all for an operator, newest first."""
        ...

    async def counts(self, viewer: Viewer) -> WishCounts:
        """Return how many of the wishes that the viewer may see were carried out, proposed and dismissed."""
        ...

    async def withheld(self, viewer: Viewer, message_ids: Sequence[MessageId]) -> list[Withheld]:
        """Return which of these messages wishes withhold, and by whose request."""
        ...

    async def accept(self, wish: str) -> SpokenWish:
        """Carry a wish out that was proposed, or dismissed before; return it."""
        ...

    async def dismiss(self, wish: str) -> SpokenWish:
        """Let a wish count no more, or never; return it."""
        ...

    async def mode(self) -> WishMode:
        """Return what the org does with the requests it hears; for operators."""
        ...

    async def set_mode(self, mode: WishMode) -> WishMode:
        """Say what the org does with the requests it hears, and return it; for operators."""
        ...


class SomeConversations(Protocol):
    """What was said by topic."""

    async def all(self, viewer: Viewer, room: str | None = None, *, limit: int = 50) -> list[Conversation]:
        """Return the conversations the viewer may see, newest first."""
        ...

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: str | None = None
    ) -> tuple[Conversation, list[Placed]]:
        """Return a conversation and the newest of what was said in it, or what was before a message, oldest first."""
        ...

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None
    ) -> list[Placed]:
        """Return the newest messages of a room with what they answer and their conversations, oldest first."""
        ...

    async def move(self, message: str, to: str) -> Conversation:
        """Put a message into another conversation of its room; return that."""
        ...

    async def split(self, words: Sequence[str], label: str = "", *, room: str | None = None) -> Conversation:
        """Make a conversation of messages of one room and return it."""
        ...

    async def merge(self, one: str, other: str) -> Conversation:
        """Put everything of the other conversation into the one, and return that."""
        ...

    async def rename(self, conversation: str, label: str) -> Conversation:
        """Say what a conversation is called and return it."""
        ...

    async def mark(self, conversation: str, sensitivity: Sensitivity) -> Conversation:
        """Say how sensitive a conversation is and return it."""
        ...

    async def close(self, conversation: str) -> Conversation:
        """Say that a conversation is over and return it."""
        ...


class SomeOperations(Protocol):
    """How far the work has come, and what rooms embed; for operators."""

    async def numbers(self) -> Numbers:
        """Return how far the work has come in each room, and how long reads take."""
        ...

    async def state(self) -> State:
        """Return which workers there are, what was set aside and why, and how large the database is."""
        ...

    async def embed(self, room: str, policy: EmbeddingPolicy) -> PolicyChange:
        """Say what a room embeds; return what that changed."""
        ...


class SomeRoomManagement(Protocol):
    """The access, names and members of rooms; for operators."""

    async def open(self, room: str, *, dry_run: bool = False) -> RoomOpening:
        """Let the whole org read a room, and return how much that is; on a dry run only that."""
        ...

    async def close(self, room: str) -> RoomId:
        """Let only its members read a room, and return its id."""
        ...

    async def rename(self, room: str, name: str) -> RoomId:
        """Call a room by another name, which stays; return its id."""
        ...

    async def members(self, room: str) -> list[RoomMember]:
        """Return who is and was a member of a room, those who are first."""
        ...

    async def add_member(
        self, room: str, participant: str, *, since: datetime | None = None, always: bool = False
    ) -> list[RoomMember]:
        """Make somebody a member of a room and return who its members are then."""
        ...

    async def remove_member(self, room: str, participant: str) -> list[RoomMember]:
        """End somebody's membership of a room; return who its members are then."""
        ...


class SomeErasures(Protocol):
    """What is to be gone, and receipts of what is."""

    async def redact(self, message: str, *, room: str | None = None, dry_run: bool = False) -> MessageId:
        """Remove a message's content and all that was derived from it; return its id."""
        ...

    async def message(self, word: str, *, room: str | None = None, dry_run: bool = False) -> Receipt:
        """Erase a message and leave a hole in its place; return the receipt."""
        ...

    async def range(
        self,
        room: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        dry_run: bool = False,
    ) -> Receipt:
        """Erase the messages that were sent in a room in a time; return the receipt."""
        ...

    async def room(self, room: str, *, dry_run: bool = False) -> Receipt:
        """Erase a room whole: all that was said in it and made of it, its members, its name."""
        ...

    async def person(self, word: str, *, dry_run: bool = False) -> Receipt:
        """Erase a person: all accounts, all they wrote, and their traces in what others said."""
        ...

    async def receipts(self, limit: int = 50) -> list[Receipt]:
        """Return the newest receipts, newest first."""
        ...

    async def receipt(self, receipt_id: str) -> Receipt:
        """Return the receipt that an id or its beginning means."""
        ...

    async def check(self, receipt_id: str) -> Receipt:
        """Look once more whether everything that a receipt names is gone; return it with what was found."""
        ...

    async def keep(self, room: str, keep_for: timedelta | None, *, dry_run: bool = False) -> Retention:
        """Say how long a room keeps what was said in it, None being forever; return when that begins and what goes."""
        ...

    async def expire(self, now: datetime | None = None) -> list[Receipt]:
        """Erase what is older than its room keeps, and return a receipt for each portion that went."""
        ...


class SomeIntake(Protocol):
    """What is said, as records of our own format; and edits of it."""

    async def records(self, records: Sequence[Any]) -> BatchTaken:
        """Store messages given as objects of `roomlore.message/1`, and return what became of each."""
        ...

    async def say(
        self,
        room: str,
        text: str,
        *,
        reply_to: str | None = None,
        to: Sequence[str] = (),
        external_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> MessageId:
        """Store a message of the calling agent's and return its id."""
        ...

    async def edit(self, message: str, text: str, *, room: str | None = None) -> MessageId:
        """Put another text in the place of a message's and return its id."""
        ...
