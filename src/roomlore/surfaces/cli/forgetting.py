"""Verbs that make things go: redact, forget, keep; and the receipts of what went."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from roomlore.app import App
from roomlore.domain.ids import short_id, short_ids
from roomlore.domain.receipts import Receipt, StillCopied, Store
from roomlore.domain.wording import counted
from roomlore.surfaces.cli.memories import change
from roomlore.surfaces.cli.output import Output, minute, plain, printable
from roomlore.surfaces.cli.session import Session, with_app
from roomlore.surfaces.cli.spans import TIME, Span, in_utc
from roomlore.surfaces.documents import receipt_given

FOREVER = "forever"
#: What copies in a server consist of.
HELD: Mapping[Store, str] = {"qdrant": "point", "neo4j": "node"}
#: Erases, or on a dry run only tells what would go.
Erasing = Callable[[App, bool], Awaitable[Receipt]]

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would go.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
room_option = click.option("--room", metavar="ROOM", help="Where the message is.")


@click.command()
@click.argument("message")
@room_option
@click.pass_obj
def redact(session: Session, message: str, room: str | None) -> None:
    """Take the words of MESSAGE back, and all that was made from them; its place and author stay."""

    async def use(app: App) -> None:
        redacted = await (await session.acting(app)).erasure.redact(message, room=room)
        if session.output.as_json:
            session.output.json({"redacted": redacted})
        else:
            session.output.text(f"redacted {redacted}")

    with_app(session, use)


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
@dry_run_option
@yes_option
@click.pass_obj
def message_(session: Session, message: str, room: str | None, **options: bool) -> None:
    """Erase MESSAGE: words, author and all that hangs on it. A hole stays in its place."""

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.message(message, room=room, dry_run=is_dry_run)

    _forget(session, erase, **options)


@forget.command("range")
@click.argument("room")
@click.option("--since", type=TIME, help="From this time on, UTC.")
@click.option("--until", type=TIME, help="Up to this time, UTC; until now by default.")
@click.option("--all", "everything", is_flag=True, help="Everything said so far.")
@dry_run_option
@yes_option
@click.pass_obj
def range_(session: Session, room: str, **options: Any) -> None:
    """Erase what was sent in ROOM in a time: messages altogether, and all that hangs on them."""
    since, until, everything = (options.pop(name) for name in ("since", "until", "everything"))
    if everything == bool(since or until):
        raise click.UsageError("say --since, --until or both; or --all")

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        times = {"since": in_utc(since), "until": in_utc(until)}
        return await app.erasure.range(room, **times, dry_run=is_dry_run)

    _forget(session, erase, **options)


@forget.command()
@click.argument("name")
@dry_run_option
@yes_option
@click.pass_obj
def person(session: Session, name: str, **options: bool) -> None:
    """Erase NAME with all accounts: what they said, what is known of them, and where others mention them."""

    async def erase(app: App, is_dry_run: bool) -> Receipt:  # noqa: FBT001  called with a plain boolean
        return await app.erasure.person(name, dry_run=is_dry_run)

    _forget(session, erase, **options)


@click.command()
@click.argument("room")
@click.argument("span", metavar=f"90d|12h|4w|{FOREVER}")
@click.pass_context
def keep(ctx: click.Context, room: str, span: str) -> None:
    """Say how long ROOM keeps what was said; the worker erases what is older."""
    session: Session = ctx.obj
    keep_for = None if span == FOREVER else Span(minutes=False).convert(span, None, ctx)

    async def use(app: App) -> None:
        room_id = await (await session.acting(app)).erasure.keep(room, keep_for)
        if session.output.as_json:
            session.output.json({"room": room_id, "keep_for": keep_for})
        else:
            session.output.text(f"{room} keeps what was said {_for(keep_for)}")

    with_app(session, use)


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

    _end(with_app(session, use))


def _forget(session: Session, erase: Erasing, *, dry_run: bool, yes: bool) -> None:
    """Erase and show the receipt; whoever did not say --yes sees first what would go, and is asked."""
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (dry_run or yes or on_terminal):
        raise click.UsageError("nobody is there to be asked: --yes erases, --dry-run shows what would go")

    async def use(app: App) -> Receipt:
        acting = await session.acting(app)
        if dry_run or yes:
            receipt = await erase(acting, dry_run)
        else:
            dry = await erase(acting, True)
            _ask(dry)
            receipt = await _erase_shown(acting, dry)
        show_receipt(session.output, receipt)
        return receipt

    receipt = with_app(session, use)
    _end(None if dry_run else receipt)


def _ask(dry: Receipt) -> None:
    """Show what would go and ask; whoever says no ends the command."""
    for line in lines(dry):
        click.echo(printable(line), err=True)
    if not click.confirm("This cannot be undone. Erase?", err=True):
        click.echo("nothing was erased", err=True)
        raise click.exceptions.Exit(1)


async def _erase_shown(app: App, dry: Receipt) -> Receipt:
    """Erase what a dry run showed, whatever the words it was asked for with mean by now."""
    room = str(dry.room_id)
    match dry.kind:
        case "message":
            return await app.erasure.message(str(dry.message_id), room=room)
        case "person":
            return await app.erasure.person(str(dry.participant_ids[0]))
        case "range" | "expiry":
            return await app.erasure.range(room, since=dry.since, until=dry.until)


def _end(receipt: Receipt | None) -> None:
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
    meant = [f"  {what:<7} {which}" for what, which in _meant(receipt)]
    gone = [f"  gone    {part.count:>7,} {part.what}" for part in receipt.removed] or ["  gone    nothing"]
    kept = [f"  stays   {part.count:>7,} {part.what}: {part.why}" for part in receipt.kept]
    left = [f"  FOUND   {check.found:>7,} {check.what}" for check in receipt.checks or () if check.found]
    copied = [_still_copied(one, is_own=receipt.is_own) for one in receipt.copies or ()]
    return [head, *meant, *gone, *kept, *left, *_looked(receipt), *copied]


def _still_copied(one: StillCopied, *, is_own: bool) -> str:
    """Return what copies in a server may hold still, in a line; of an own receipt never more than it counts."""
    if one.is_done and is_own:
        gone = (
            "the messages and accounts themselves are gone there; what was made of them is not counted here"
        )
        return f"  copies in {one.store}: {gone}"
    if one.is_done:
        return f"  copies in {one.store}: all of it is gone there, too"
    held = HELD[one.store]
    parts = [f"  copies in {one.store}: {counted(one.to_remove, held)} to be removed"]
    if one.to_rewrite:
        parts.append(f"{counted(one.to_rewrite, held)} to be written anew")
    if one.set_aside:
        parts.append(f"{one.set_aside:,} of them set aside, roomlore worker --retry tries again")
    if one.failing_since is not None:
        why = "" if one.error is None else f": {one.error}"
        parts.append(f"the server has been failing since {_exactly(one.failing_since)}{why}")
    return "; ".join(parts)


def _meant(receipt: Receipt) -> list[tuple[str, object]]:
    """Return what an erasure is about, by ids and times: names it does not know, or must not repeat."""
    about = [
        ("what", receipt.kind),
        ("room", receipt.room_id),
        ("message", receipt.message_id),
        *(("person", participant_id) for participant_id in receipt.participant_ids),
        ("since", _exactly(receipt.since)),
        ("until", _exactly(receipt.until)),
    ]
    return [(what, which) for what, which in about if which is not None]


def _looked(receipt: Receipt) -> list[str]:
    """Return when the second look was taken and at what, in a line; none if it was not."""
    if receipt.checks is None:
        return []
    checks = ", ".join(f"{check.what} {check.found}" for check in receipt.checks)
    return [f"  looked again at {_exactly(receipt.checked_at)}: {_state(receipt)} ({checks})"]


def _exactly(time: datetime | None) -> str | None:
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


def _for(keep_for: timedelta | None) -> str:
    if keep_for is None:
        return FOREVER
    days, hours = divmod(keep_for // timedelta(hours=1), 24)
    return f"for {counted(days * 24 + hours, 'hour') if hours else counted(days, 'day')}"


VERBS = (redact, forget, keep, receipts)
