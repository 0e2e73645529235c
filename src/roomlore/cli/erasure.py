"""Verbs that remove data: redact, erase, retention; and receipts of erasures."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.output import Output, minute, plain, retention_text
from roomlore.cli.param_types import SpanType, TimeType
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import MessageId, short_id, short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.receipts import PendingRemoval, Receipt, StoreName
from roomlore.domain.records import Message
from roomlore.domain.retention import RetentionChange
from roomlore.operations import App
from roomlore.operations.memories import MemoryBrowser
from roomlore.operations.responses import receipt_response

FOREVER = "forever"
#: What an index holds.
STORE_ITEMS: Mapping[StoreName, str] = {"qdrant": "point", "neo4j": "node"}
#: Erases. On a dry run, it only counts.
EraseCall = Callable[[App, bool], Awaitable[Receipt]]

room_option = click.option("--room", metavar="ROOM", help="The room of the message.")


@click.command()
@click.argument("message")
@room_option
@destructive_options
@click.pass_obj
def redact(session: Session, message: str, room: str | None, **options: bool) -> None:
    """Remove the text of MESSAGE and everything derived from it; its place and author stay."""
    check_answerable(**options)

    async def look(app: App) -> Message:
        # The dry run checks that the caller may redact the message before the message is shown.
        found = await app.erasure.redact(message, room=room, dry_run=True)
        browser = MemoryBrowser(access=app.access)
        return (await browser.message(app.access.principal, str(found))).message

    async def destroy(app: App, seen: Message | None) -> MessageId:
        if seen is None:
            return await app.erasure.redact(message, room=room)
        return await app.erasure.redact(str(seen.id), room=str(seen.room_id))

    redaction = DestructiveAction(
        preview=look,
        execute=destroy,
        lines=lambda seen: ["dry run, nothing was redacted", *_message_lines(seen)],
        question="This cannot be undone. Redact?",
        refusal="nothing was redacted",
    )

    async def use(app: App) -> Message | MessageId:
        return await run_destructive(await session.impersonate(app), redaction, **options)

    done = with_app(session, use)
    is_dry_run = isinstance(done, Message)
    redacted = done.id if is_dry_run else done
    text = "\n".join(redaction.lines(done)) if is_dry_run else f"redacted {redacted}"
    session.output.result({"redacted": redacted, "is_dry_run": is_dry_run}, text)


def _message_lines(message: Message) -> list[str]:
    return [
        f"  message {message.id}",
        f"  sent    {_exact_time(message.sent_at)}",
        f"  author  {message.author_name}",
        f"  text    {message.body}",
    ]


@click.group()
def erase() -> None:
    """Erase a message, a time range of a room, or a person for good, with a receipt."""


@erase.command("message")
@click.argument("message")
@room_option
@destructive_options
@click.pass_obj
def message_(session: Session, message: str, room: str | None, **options: bool) -> None:
    """Erase MESSAGE: text, author and everything derived from it. A tombstone stays in its place."""

    async def call(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.message(message, room=room, dry_run=is_dry_run)

    _erase_confirmed(session, call, **options)


@erase.command("range")
@click.argument("room")
@click.option("--since", type=TimeType(), help="From this time on, UTC.")
@click.option("--until", type=TimeType(), help="Up to this time, UTC; until now by default.")
@click.option("--all", "everything", is_flag=True, help="Everything sent so far.")
@destructive_options
@click.pass_obj
def range_(session: Session, room: str, **options: Any) -> None:
    """Erase the messages of ROOM in a time range, and everything derived from them."""
    since, until, everything = (options.pop(name) for name in ("since", "until", "everything"))
    if everything == bool(since or until):
        raise click.UsageError("give --since, --until or both; or --all")

    async def call(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.range(room, since=since, until=until, dry_run=is_dry_run)

    _erase_confirmed(session, call, **options)


@erase.command()
@click.argument("name")
@destructive_options
@click.pass_obj
def person(session: Session, name: str, **options: bool) -> None:
    """Erase the person NAME with all accounts: their messages, memories about them, and mentions by others."""

    async def call(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.person(name, dry_run=is_dry_run)

    _erase_confirmed(session, call, **options)


@click.command()
@click.argument("room")
@click.argument("span", metavar=f"90d|12h|4w|{FOREVER}")
@destructive_options
@click.pass_context
def retention(ctx: click.Context, room: str, span: str, **options: bool) -> None:
    """Set how long ROOM keeps its messages; the worker erases older ones.

    A shorter time begins after one day; until then `retention ROOM forever` cancels it.
    """
    session: Session = ctx.obj
    retention_period = None if span == FOREVER else SpanType(minutes=False).convert(span, None, ctx)

    async def use(app: App) -> RetentionChange:
        return await _set_retention(await session.impersonate(app), room, retention_period, **options)

    changed = with_app(session, use)
    session.output.result(changed, "\n".join(retention_lines(room, changed)))


async def _set_retention(
    app: App, room: str, retention_period: timedelta | None, **options: bool
) -> RetentionChange:
    seen = await app.erasure.set_retention(room, retention_period, dry_run=True)
    # A longer time destroys nothing, so it needs no confirmation.
    if seen.starts_at is None and not options["dry_run"]:
        return await app.erasure.set_retention(room, retention_period)
    check_answerable(**options)

    async def look(_app: App) -> RetentionChange:
        return seen

    async def destroy(app: App, _seen: RetentionChange | None) -> RetentionChange:
        return await app.erasure.set_retention(str(seen.room_id), retention_period)

    shortening = DestructiveAction(
        preview=look,
        execute=destroy,
        lines=lambda seen: retention_lines(room, seen),
        question="Set this retention?",
        refusal="the retention was not changed",
    )
    return await run_destructive(app, shortening, **options)


def retention_lines(room: str, change: RetentionChange) -> Sequence[str]:
    """Return the retention of a room in lines: when it begins, and which messages it removes."""
    lines = ["dry run, nothing was changed"] if change.is_dry_run else []
    span = retention_text(change.retention_period, change.starts_at)
    lines.append(f"{room} keeps messages {span if change.retention_period is None else f'for {span}'}")
    if change.messages or change.starts_at is not None:
        removed = f"  removes {count_phrase(change.messages, 'message')}"
        if change.oldest_at is not None and change.newest_at is not None:
            removed += f", sent from {minute(change.oldest_at)} to {minute(change.newest_at)} UTC"
        lines.append(removed)
    if change.starts_at is not None and not change.is_dry_run:
        lines.append(f"  until then `roomlore retention {room} {FOREVER}` cancels this")
    return lines


@click.command()
@click.argument("receipt", metavar="[ID]", required=False)
@click.option("--verify", is_flag=True, help="Check again that everything is gone.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most."
)
@click.pass_obj
def receipts(session: Session, receipt: str | None, *, verify: bool, limit: int) -> None:
    """List the receipts of erasures, newest first, or show the one with this ID or start of an id."""
    if verify and receipt is None:
        raise click.UsageError("--verify needs the ID of a receipt")

    async def use(app: App) -> Receipt | None:
        erasure = (await session.impersonate(app)).erasure
        if receipt is None:
            show_receipts(session.output, await erasure.receipts(limit))
            return None
        found = await (erasure.verify(receipt) if verify else erasure.receipt(receipt))
        show_receipt(session.output, found)
        return found

    exit_unless_verified(with_app(session, use))


def _erase_confirmed(session: Session, erase: EraseCall, **options: bool) -> None:
    """Erase and show the receipt. Without --yes, first show what would be erased, and ask."""
    check_answerable(**options)

    async def look(app: App) -> Receipt:
        return await erase(app, True)

    async def destroy(app: App, seen: Receipt | None) -> Receipt:
        return await (erase(app, False) if seen is None else _erase_previewed(app, seen))

    async def use(app: App) -> Receipt:
        erasure = DestructiveAction(preview=look, execute=destroy, lines=receipt_lines)
        return await run_destructive(await session.impersonate(app), erasure, **options)

    receipt = with_app(session, use)
    show_receipt(session.output, receipt)
    exit_unless_verified(receipt)


async def _erase_previewed(app: App, preview: Receipt) -> Receipt:
    """Erase the subject of a dry run. Use its ids, because a name may mean something else by now."""
    room = str(preview.room_id)
    match preview.kind:
        case "message":
            return await app.erasure.message(str(preview.message_id), room=room)
        case "person":
            return await app.erasure.person(str(preview.participant_ids[0]))
        case "room":
            return await app.erasure.room(room)
        case "range" | "expiry":
            return await app.erasure.range(room, since=preview.since, until=preview.until)


def exit_unless_verified(receipt: Receipt | None) -> None:
    """Exit with 1 if an erasure is not verified, or if the verification found something."""
    if receipt is not None and not (receipt.is_dry_run or receipt.is_clean):
        raise click.exceptions.Exit(1)


def show_receipt(output: Output, receipt: Receipt) -> None:
    """Print a receipt."""
    if output.as_json:
        return output.json(_receipt_json(receipt))
    for line in receipt_lines(receipt):
        output.text(line)
    return None


def show_receipts(output: Output, found: Sequence[Receipt]) -> None:
    """Print receipts, one per line."""
    if output.as_json:
        return output.json([_receipt_json(receipt) for receipt in found])
    headings = ("id", "at", "kind", "messages", "state")
    short = short_ids(one.id for one in found)
    rows = [
        (short[one.id], minute(one.at), one.kind, _removed(one, "messages"), _state(one)) for one in found
    ]
    return output.table(headings, rows)


def receipt_lines(receipt: Receipt) -> list[str]:
    """Return a receipt in lines: the subject, what was removed, what stays and why, and what the verification found."""
    head = (
        "dry run, nothing was erased"
        if receipt.is_dry_run
        else f"receipt {short_id(receipt.id)}: {_state(receipt)}"
    )
    subject = [f"  {what:<7} {which}" for what, which in _subject_lines(receipt)]
    removed = [f"  removed {part.count:>7,} {part.what}" for part in receipt.removed] or ["  removed nothing"]
    stays = [f"  stays   {part.count:>7,} {part.what}: {part.reason}" for part in receipt.kept]
    left = [f"  FOUND   {check.found:>7,} {check.what}" for check in receipt.checks or () if check.found]
    pending = [_pending_line(one, is_own=receipt.is_own) for one in receipt.pending_projections or ()]
    return [head, *subject, *removed, *stays, *left, *_verification_lines(receipt), *pending]


def _pending_line(one: PendingRemoval, *, is_own: bool) -> str:
    """Return a line about the content that an index may still hold.

    The receipt of a participant does not count derived records. So its line does not say that everything is removed.
    """
    if one.is_done and is_own:
        return f"  index {one.store}: the messages and accounts are removed; what was derived is not counted here"
    if one.is_done:
        return f"  index {one.store}: everything is removed"
    item = STORE_ITEMS[one.store]
    parts = [f"  index {one.store}: {count_phrase(one.to_remove, item)} to remove"]
    if one.to_rewrite:
        parts.append(f"{count_phrase(one.to_rewrite, item)} to rewrite")
    if one.dead_lettered:
        parts.append(f"{one.dead_lettered:,} of them failed, roomlore worker --retry tries again")
    if one.failing_since is not None:
        why = "" if one.error is None else f": {one.error}"
        parts.append(f"the server has been failing since {_exact_time(one.failing_since)}{why}")
    return "; ".join(parts)


def _subject_lines(receipt: Receipt) -> list[tuple[str, object]]:
    """Return the subject of an erasure by ids and times, because a receipt contains no names."""
    about = [
        ("what", receipt.kind),
        ("room", receipt.room_id),
        ("message", receipt.message_id),
        *(("person", participant_id) for participant_id in receipt.participant_ids),
        ("since", _exact_time(receipt.since)),
        ("until", _exact_time(receipt.until)),
    ]
    return [(what, which) for what, which in about if which is not None]


def _verification_lines(receipt: Receipt) -> list[str]:
    if receipt.checks is None:
        return []
    checks = ", ".join(f"{check.what} {check.found}" for check in receipt.checks)
    return [f"  verified at {_exact_time(receipt.checked_at)}: {_state(receipt)} ({checks})"]


def _exact_time(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _removed(receipt: Receipt, what: str) -> int:
    return sum(part.count for part in receipt.removed if part.what == what)


def _state(receipt: Receipt) -> str:
    if receipt.checks is None:
        return "not verified yet; receipts ID --verify does it"
    return "clean" if receipt.is_clean else "NOT CLEAN"


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    document = plain(receipt_response(receipt))
    if receipt.is_dry_run:
        del document["id"]
    return document
