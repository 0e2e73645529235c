"""Keeps what was removed from coming back by way of raw logs.

Nothing is taken out of the files. A line is shown only if it can be told for certain that nobody removed what it says:
by its place where that is known, by its author where that is known, by its time. Where a line does not say enough,
it is left out as soon as anything was removed that it might be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from roomlore.db import erased, raw_logs
from roomlore.db.erased import AccountName, ErasedRange, MessageName, RoomName
from roomlore.db.queries import Connection
from roomlore.db.rooms import erased_rooms
from roomlore.domain.ids import OrgId
from roomlore.privacy.identifiers import contains_any
from roomlore.search.log_search import CHECK_BATCH, MAX_MATCHES, LogCandidate


@dataclass(frozen=True, slots=True, kw_only=True)
class LogExclusions:
    """What was removed, and what is stored, as far as some lines may be of it."""

    #: Where there is a message, or was one.
    stored: set[MessageName] = field(default_factory=set[MessageName])
    #: Rooms in which messages were redacted or erased.
    rooms: set[RoomName] = field(default_factory=set[RoomName])
    ranges: Mapping[RoomName, Sequence[ErasedRange]] = field(
        default_factory=dict[RoomName, Sequence[ErasedRange]]
    )
    #: Rooms in which a spoken request keeps something from somebody.
    restricted_rooms: set[RoomName] = field(default_factory=set[RoomName])
    #: Of lines whose place is not known, those that say what a request withholds.
    restricted_texts: set[str] = field(default_factory=set[str])
    #: Whether a stretch of any room was erased.
    has_ranges: bool = False
    #: Those of the rooms of these lines that were erased whole, and whether any room was.
    erased_rooms: frozenset[RoomName] = frozenset()
    has_erased_rooms: bool = False
    #: Since when rooms keep what was said.
    kept_since: Mapping[RoomName, datetime] = field(default_factory=dict[RoomName, datetime])
    has_accounts: bool = False
    #: When accounts were erased.
    accounts: Mapping[AccountName, datetime] = field(default_factory=dict[AccountName, datetime])
    #: Of all rooms, for lines that do not say theirs.
    platforms: Sequence[str] = ()

    def is_stored(self, one: LogCandidate) -> bool:
        """Return whether there is such a message already, or was one."""
        return any(
            (*place, key) in self.stored
            for place in one.record.possible_rooms(one.mapped_room)
            for key in one.record.ids
        )

    def is_possibly_erased(self, one: LogCandidate) -> bool:
        """Return whether somebody may have removed what a line says."""
        places = one.record.possible_rooms(one.mapped_room)
        if not places and (self.rooms or self.has_ranges or self.has_erased_rooms):
            return True
        if any(place in self.erased_rooms for place in places):
            return True
        if one.record.text in self.restricted_texts:
            return True
        if not one.record.is_exact and any(place in self.rooms | self.restricted_rooms for place in places):
            return True
        return self._is_in_erased_range(one, places) or self._is_by_erased_account(one)

    def _is_in_erased_range(self, one: LogCandidate, places: Sequence[RoomName]) -> bool:
        """Return whether a line is from a stretch that was erased, or too old for its room, or may be."""
        sent_at = one.record.sent_at
        since = [self.kept_since[place] for place in places or self.kept_since if place in self.kept_since]
        ranges = [span for place in places for span in self.ranges.get(place, ())]
        if sent_at is None:
            return bool(since or ranges)
        return any(sent_at < start for start in since) or any(
            (span.since is None or span.since <= sent_at) and sent_at < span.until for span in ranges
        )

    def _is_by_erased_account(self, one: LogCandidate) -> bool:
        """Return whether an erased account said a line or is mentioned in it, or may have said it."""
        if not self.has_accounts:
            return False
        if not one.record.is_exact:
            return True
        sent_at = one.record.sent_at
        gone = (
            self.accounts.get(name)
            for name in one.record.possible_accounts(possible_platforms(one, self.platforms))
        )
        return any(at is not None and (sent_at is None or sent_at <= at) for at in gone)


def possible_platforms(one: LogCandidate, every: Sequence[str]) -> list[str]:
    """Return the platforms of a line's author: where it may have been said, or any where that is not known."""
    return list(dict.fromkeys(place[0] for place in one.record.possible_rooms(one.mapped_room))) or list(
        every
    )


async def load_exclusions(
    conn: Connection, org_id: OrgId, found: Sequence[LogCandidate], *, now: datetime
) -> LogExclusions:
    """Return what is known of the places, authors and times of some lines.

    Args:
        conn: Reads for the operator: what others may not see must be known here.
        org_id: Whose.
        found: The lines.
        now: Tells what rooms keep no longer.
    """
    flags = await erased.erased_kinds(conn, org_id)
    names = list(
        dict.fromkeys(place for one in found for place in one.record.possible_rooms(one.mapped_room))
    )
    places = [
        (*place, key)
        for one in found
        for place in one.record.possible_rooms(one.mapped_room)
        for key in one.record.ids
    ]
    ranges: dict[RoomName, list[ErasedRange]] = {}
    for one in await erased.erased_ranges(conn, org_id, names) if flags.ranges else ():
        ranges.setdefault((one.platform, one.room), []).append(one)
    keeping = await erased.rooms_with_retention(conn, org_id, now=now) if flags.keeping else []
    withheld_in = await raw_logs.rooms_with_restrictions(conn, org_id)
    unplaced = [one.record.text for one in found if not one.record.possible_rooms(one.mapped_room)]
    platforms = await raw_logs.platforms(conn, org_id)
    accounts = {
        name for one in found for name in one.record.possible_accounts(possible_platforms(one, platforms))
    }
    return LogExclusions(
        stored=await raw_logs.stored_messages(conn, org_id, places),
        rooms=await raw_logs.rooms_with_removals(conn, org_id),
        restricted_rooms=withheld_in,
        restricted_texts=await _restricted_texts(conn, org_id, unplaced) if withheld_in else set(),
        ranges=ranges,
        has_ranges=flags.ranges,
        erased_rooms=await erased_rooms(conn, org_id, names) if flags.rooms else frozenset(),
        has_erased_rooms=flags.rooms,
        kept_since={(one.platform, one.room): one.kept_since for one in keeping},
        has_accounts=flags.accounts,
        accounts=await erased.erased_accounts(conn, org_id, accounts) if flags.accounts else {},
        platforms=platforms,
    )


async def _restricted_texts(conn: Connection, org_id: OrgId, texts: Sequence[str]) -> set[str]:
    """Return those of some texts that say what a request withholds, or a value that it wants forgotten."""
    if not texts:
        return set()
    marks = await raw_logs.suppressed_values(conn, org_id)
    named = {text for text in texts if contains_any(text, marks)}
    return named | await raw_logs.restricted_repeats(conn, org_id, texts)


async def drop_excluded(
    conn: Connection, org_id: OrgId, found: Sequence[LogCandidate], *, now: datetime
) -> tuple[list[LogCandidate], int]:
    """Return the lines that are neither stored nor may have been removed, and how many of the others may have been.

    It ends as soon as enough stay: which ones does not depend on how many others there are among them.

    Args:
        conn: Reads for the operator: what others may not see must be known here.
        org_id: Whose.
        found: The lines, best first.
        now: Tells what rooms keep no longer.
    """
    fit: list[LogCandidate] = []
    left_out = 0
    for start in range(0, len(found), CHECK_BATCH):
        checked = found[start : start + CHECK_BATCH]
        known = await load_exclusions(conn, org_id, checked, now=now)
        new = [one for one in checked if not known.is_stored(one)]
        stay = [one for one in new if not known.is_possibly_erased(one)]
        fit += stay
        left_out += len(new) - len(stay)
        if len(fit) >= MAX_MATCHES:
            break
    return fit[:MAX_MATCHES], left_out
