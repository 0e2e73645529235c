"""Verbs that make things go: redact, forget; and the receipts of what went."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from roomlore.cli.confirmation import (
    DestructiveAction,
    check_answerable,
    destructive_options,
    run_destructive,
)
from roomlore.cli.memories import change
from roomlore.cli.output import Output, minute, plain
from roomlore.cli.param_types import TIME, in_utc
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import MessageId, short_id, short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.receipts import PendingRemoval, Receipt, StoreName
from roomlore.domain.records import Message
from roomlore.http.schemas import receipt_given
from roomlore.operations import App
from roomlore.operations.memories import MemoryBrowser

#: What copies in a server consist of.
STORE_ITEMS: Mapping[StoreName, str] = {"qdrant": "point", "neo4j": "node"}
#: Erases, or on a dry run only tells what would go.
EraseCall = Callable[[App, bool], Awaitable[Receipt]]

room_option = click.option("--room", metavar="ROOM", help="Where the message is.")


@click.command()
@click.argument("message")
@room_option
@destructive_options
@click.pass_obj
def redact(session: Session, message: str, room: str | None, **options: bool) -> None:
    """Take the words of MESSAGE back, and all that was made from them; its place and author stay."""
    check_answerable(**options)

    async def look(app: App) -> Message:
        # Whether it is theirs to redact is asked before it is shown.
        found = await app.erasure.redact(message, room=room, dry_run=True)
        return await _find_message(app, found)

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
        return await run_destructive(await session.acting(app), redaction, **options)

    done = with_app(session, use)
    is_dry_run = isinstance(done, Message)
    redacted = done.id if is_dry_run else done
    if session.output.as_json:
        session.output.json({"redacted": redacted, "is_dry_run": is_dry_run})
    elif is_dry_run:
        for line in redaction.lines(done):
            session.output.text(line)
    else:
        session.output.text(f"redacted {redacted}")


async def _find_message(app: App, message_id: MessageId) -> Message:
    """Return a message that is there."""
    return (await MemoryBrowser(access=app.access).message(app.access.principal, str(message_id))).message


def _message_lines(message: Message) -> list[str]:
    """Return which message it is, in lines."""
    return [
        f"  message {message.id}",
        f"  sent    {_exact_time(message.sent_at)}",
        f"  by      {message.author_name}",
        f"  said    {message.body}",
    ]


@click.group()
def forget() -> None:
    """Erase for good a message, a stretch of a room or a person, with a receipt; or put a memory aside."""


@forget.command("memory")
@click.argument("memory")
@click.pass_obj
def memory_(session: Session, memory: str) -> None:
    """Put MEMORY aside: nobody recalls it, and it is not drawn from its messages again.

    `restore` takes this back. The messages stay.
    """
    change(session, lambda app: app.memories.forget(memory))


@forget.command("message")
@click.argument("message")
@room_option
@destructive_options
@click.pass_obj
def message_(session: Session, message: str, room: str | None, **options: bool) -> None:
    """Erase MESSAGE: words, author and all that hangs on it. A hole stays in its place."""

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.message(message, room=room, dry_run=is_dry_run)

    _erase_confirmed(session, erase, **options)


@forget.command("range")
@click.argument("room")
@click.option("--since", type=TIME, help="From this time on, UTC.")
@click.option("--until", type=TIME, help="Up to this time, UTC; until now by default.")
@click.option("--all", "everything", is_flag=True, help="Everything said so far.")
@destructive_options
@click.pass_obj
def range_(session: Session, room: str, **options: Any) -> None:
    """Erase what was sent in ROOM in a time: messages altogether, and all that hangs on them."""
    since, until, everything = (options.pop(name) for name in ("since", "until", "everything"))
    if everything == bool(since or until):
        raise click.UsageError("say --since, --until or both; or --all")

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        times = {"since": in_utc(since), "until": in_utc(until)}
        return await app.erasure.range(room, **times, dry_run=is_dry_run)

    _erase_confirmed(session, erase, **options)


@forget.command()
@click.argument("name")
@destructive_options
@click.pass_obj
def person(session: Session, name: str, **options: bool) -> None:
    """Erase NAME with all accounts: what they said, what is known of them, and where others mention them."""

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.person(name, dry_run=is_dry_run)

    _erase_confirmed(session, erase, **options)


@click.command()
@click.argument("receipt", metavar="[ID]", required=False)
@click.option("--check", is_flag=True, help="Look once more whether everything is gone.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many.")
@click.pass_obj
def receipts(session: Session, receipt: str | None, *, check: bool, limit: int) -> None:
    """List receipts of erasures, newest first, or show the one with this ID or its beginning."""
    if check and receipt is None:
        raise click.UsageError("--check needs the ID of a receipt")

    async def use(app: App) -> Receipt | None:
        erasure = (await session.acting(app)).erasure
        if receipt is None:
            show_receipts(session.output, await erasure.receipts(limit))
            return None
        found = await (erasure.check(receipt) if check else erasure.receipt(receipt))
        show_receipt(session.output, found)
        return found

    _exit_unless_clean(with_app(session, use))


def _erase_confirmed(session: Session, erase: EraseCall, **options: bool) -> None:
    """Erase and show the receipt; whoever did not say --yes sees first what would go, and is asked."""
    check_answerable(**options)

    async def look(app: App) -> Receipt:
        return await erase(app, True)

    async def destroy(app: App, seen: Receipt | None) -> Receipt:
        return await (erase(app, False) if seen is None else _erase_previewed(app, seen))

    async def use(app: App) -> Receipt:
        erasure = DestructiveAction(preview=look, execute=destroy, lines=lines)
        return await run_destructive(await session.acting(app), erasure, **options)

    receipt = with_app(session, use)
    show_receipt(session.output, receipt)
    _exit_unless_clean(None if receipt.is_dry_run else receipt)


async def _erase_previewed(app: App, dry: Receipt) -> Receipt:
    """Erase what a dry run showed, whatever the words it was asked for with mean by now."""
    room = str(dry.room_id)
    match dry.kind:
        case "message":
            return await app.erasure.message(str(dry.message_id), room=room)
        case "person":
            return await app.erasure.person(str(dry.participant_ids[0]))
        case "room":
            return await app.erasure.room(room)
        case "range" | "expiry":
            return await app.erasure.range(room, since=dry.since, until=dry.until)


def _exit_unless_clean(receipt: Receipt | None) -> None:
    if receipt is not None and not receipt.is_clean:
        raise click.exceptions.Exit(1)


def show_receipt(output: Output, receipt: Receipt) -> None:
    """Print a receipt."""
    if output.as_json:
        return output.json(_receipt_json(receipt))
    for line in lines(receipt):
        output.text(line)
    return None


def show_receipts(output: Output, found: Sequence[Receipt]) -> None:
    """Print receipts, one a line."""
    if output.as_json:
        return output.json([_receipt_json(receipt) for receipt in found])
    headings = ("id", "at", "kind", "messages", "state")
    short = short_ids(one.id for one in found)
    rows = [
        (short[one.id], minute(one.at), one.kind, _removed(one, "messages"), _state(one)) for one in found
    ]
    return output.table(headings, rows)


def lines(receipt: Receipt) -> list[str]:
    """Return a receipt in lines: what was meant, what went, what stays and why, what a second look found."""
    head = (
        "dry run, nothing was erased"
        if receipt.is_dry_run
        else f"receipt {short_id(receipt.id)}: {_state(receipt)}"
    )
    meant = [f"  {what:<7} {which}" for what, which in _subject_lines(receipt)]
    gone = [f"  gone    {part.count:>7,} {part.what}" for part in receipt.removed] or ["  gone    nothing"]
    kept = [f"  stays   {part.count:>7,} {part.what}: {part.why}" for part in receipt.kept]
    left = [f"  FOUND   {check.found:>7,} {check.what}" for check in receipt.checks or () if check.found]
    copied = [_pending_line(one, is_own=receipt.is_own) for one in receipt.copies or ()]
    return [head, *meant, *gone, *kept, *left, *_verification_lines(receipt), *copied]


def _pending_line(one: PendingRemoval, *, is_own: bool) -> str:
    """Return what copies in a server may hold still, in a line; of an own receipt never more than it counts."""
    if one.is_done and is_own:
        gone = (
            "the messages and accounts themselves are gone there; what was made of them is not counted here"
        )
        return f"  copies in {one.store}: {gone}"
    if one.is_done:
        return f"  copies in {one.store}: all of it is gone there, too"
    held = STORE_ITEMS[one.store]
    parts = [f"  copies in {one.store}: {count_phrase(one.to_remove, held)} to be removed"]
    if one.to_rewrite:
        parts.append(f"{count_phrase(one.to_rewrite, held)} to be written anew")
    if one.set_aside:
        parts.append(f"{one.set_aside:,} of them set aside, roomlore worker --retry tries again")
    if one.failing_since is not None:
        why = "" if one.error is None else f": {one.error}"
        parts.append(f"the server has been failing since {_exact_time(one.failing_since)}{why}")
    return "; ".join(parts)


def _subject_lines(receipt: Receipt) -> list[tuple[str, object]]:
    """Return what an erasure is about, by ids and times: names it does not know, or must not repeat."""
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
    """Return when the second look was taken and at what, in a line; none if it was not."""
    if receipt.checks is None:
        return []
    checks = ", ".join(f"{check.what} {check.found}" for check in receipt.checks)
    return [f"  looked again at {_exact_time(receipt.checked_at)}: {_state(receipt)} ({checks})"]


def _exact_time(time: datetime | None) -> str | None:
    return None if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _removed(receipt: Receipt, what: str) -> int:
    return sum(part.count for part in receipt.removed if part.what == what)


def _state(receipt: Receipt) -> str:
    if receipt.checks is None:
        return "not checked yet; receipts ID --check does"
    return "clean" if receipt.is_clean else "NOT CLEAN"


def _receipt_json(receipt: Receipt) -> dict[str, Any]:
    document = plain(receipt_given(receipt))
    if receipt.is_dry_run:
        del document["id"]
    return document
