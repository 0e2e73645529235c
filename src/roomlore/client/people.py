"""People behind a server: whose accounts the participants are, who may come in, and what they wished."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from roomlore.app.keys import NewKey
from roomlore.app.people import OWN_PLATFORM
from roomlore.app.wishes import SpokenWish, WishCounts, WishMode, WishSetting, WishStatus
from roomlore.client import written
from roomlore.client.line import Line, check_page
from roomlore.client.written import segment
from roomlore.domain.ids import KeyId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account, ApiKey, Participant, Viewer
from roomlore.domain.roles import Role
from roomlore.retrieval.records import Withheld


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who takes part, with all their accounts, as a server lists them."""

    id: ParticipantId
    accounts: list[Account]
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None

    def participant(self) -> Participant:
        """Return the participant: what a platform calls each account is told elsewhere."""
        keys = dict.fromkeys((self.id, *(one.participant_id for one in self.accounts)))
        return Participant(
            id=self.id,
            accounts=list(keys),
            name=self.name,
            kind=self.kind,
            message_count=self.message_count,
            first_seen_at=self.first_seen_at,
            last_seen_at=self.last_seen_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made(ApiKey):
    """A key just made."""

    key: str

    def __repr__(self) -> str:
        """Show no key."""
        return f"_Made({self.id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revoked:
    """The key that is invalid now."""

    revoked: KeyId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPeople:
    """Whose accounts the participants are; the calls are those of `app.people.People`."""

    line: Line

    async def accounts(self, viewer: Viewer, word: str | None = None) -> list[Account]:
        """Return the accounts of a person, or of everybody, as far as the viewer may know them."""
        path = "accounts" if word is None else f"{segment('participant', word)}/accounts"
        return await self.line.read(list[Account], f"participants/{path}", viewer=viewer)

    async def register(
        self,
        name: str,
        *,
        kind: ParticipantKind = "agent",
        platform: str = OWN_PLATFORM,
        account: str | None = None,
    ) -> Account:
        """Add a participant who has not spoken yet and return their account; one that is there already stays as it is."""
        body = {"name": name, "kind": kind, "platform": platform, "account": account}
        return await self.line.change(Account, "POST", "participants", body)

    async def merge(self, one: str, other: str) -> list[Account]:
        """Say that two participants are accounts of one person, and return all accounts of it."""
        return await self._change("merge", {"one": one, "other": other})

    async def split(self, account: str) -> list[Account]:
        """Say that a participant is a person of its own, and return the accounts it was parted from."""
        return await self._change("split", {"account": account})

    async def _change(self, what: str, body: dict[str, Any]) -> list[Account]:
        return await self.line.change(list[Account], "POST", f"participants/{what}", body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKeys:
    """Who may come in; the calls are those of `app.keys.Keys`."""

    line: Line

    async def make(
        self, role: Role, *, name: str, participant: str | None = None, lasts: timedelta | None = None
    ) -> NewKey:
        """Make a key and return it, this once."""
        seconds = None if lasts is None else lasts.total_seconds()
        wish = {"role": role, "name": name, "participant": participant, "lasts": seconds}
        made = await self.line.change(_Made, "POST", "keys", wish)
        return NewKey(kept=written.part(ApiKey, made), key=made.key)

    async def all(self) -> list[ApiKey]:
        """Return every key of the org, newest first: never the key itself."""
        return await self.line.read(list[ApiKey], "keys")

    async def revoke(self, key_id: str) -> KeyId:
        """Make a key invalid from now on and return its id."""
        return (await self.line.change(_Revoked, "DELETE", f"keys/{segment('key', key_id)}")).revoked


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWishes:
    """What was wished in rooms; the calls are those of `app.wishes.Wishes`."""

    line: Line

    async def all(
        self,
        viewer: Viewer,
        *,
        room: str | None = None,
        status: WishStatus | None = None,
        limit: int = 50,
    ) -> list[SpokenWish]:
        """Return the newest wishes that the viewer voiced, or all for an operator, newest first."""
        check_page(limit)
        asked = written.query(room=room, status=status, limit=limit)
        return await self.line.read(list[SpokenWish], "wishes", viewer=viewer, query=asked)

    async def counts(self, viewer: Viewer) -> WishCounts:
        """Return how many of the wishes that the viewer may see were carried out, proposed and dismissed."""
        return await self.line.read(WishCounts, "wishes/counts", viewer=viewer)

    async def withheld(self, viewer: Viewer, message_ids: Sequence[MessageId]) -> list[Withheld]:
        """Return which of these messages wishes withhold, and by whose request; of others' requests operators alone know."""
        asked = [("message", str(message_id)) for message_id in message_ids]
        return await self.line.read(list[Withheld], "wishes/withheld", viewer=viewer, query=asked)

    async def accept(self, wish: str) -> SpokenWish:
        """Carry a wish out that was proposed, or dismissed before; return it."""
        return await self.line.change(SpokenWish, "POST", f"wishes/{segment('wish', wish)}/accept")

    async def dismiss(self, wish: str) -> SpokenWish:
        """Let a wish count no more, or never: what it covered is recalled again; return it."""
        return await self.line.change(SpokenWish, "POST", f"wishes/{segment('wish', wish)}/dismiss")

    async def mode(self) -> WishMode:
        """Return what the org does with the requests it hears; for operators."""
        return (await self.line.read(WishSetting, "wishes/mode")).mode

    async def set_mode(self, mode: WishMode) -> WishMode:
        """Say what the org does with the requests it hears, and return it; for operators."""
        return (await self.line.change(WishSetting, "PUT", "wishes/mode", {"mode": mode})).mode
