"""The verb that works: what follows from messages, as they arrive or until nothing waits."""

import asyncio
import signal
from functools import partial

import click

from roomlore.cli.output import Output
from roomlore.cli.progress import count_progress, job_progress
from roomlore.cli.session import Session, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App


@click.command()
@click.option("--drain", "until_done", is_flag=True, help="Exit when nothing is left to do.")
@click.option("--retry", is_flag=True, help="First let what was set aside be tried again.")
@click.pass_obj
def worker(session: Session, until_done: bool, retry: bool) -> None:  # noqa: FBT001  click passes flags by name
    """Untangle messages and embed them and memories as they arrive, in every org of the database.

    Rooms that keep what was said for a time are emptied of what is older.
    """

    async def use(app: App) -> None:
        if retry:
            again = await app.retry(every_org=True)
            session.output.chatter.print(
                f"{count_phrase(again, 'piece')} of work that had been set aside: tried again"
            )
        if until_done:
            await drain(app, session.output, every_org=True)
            return
        stop = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
        session.output.chatter.print("waiting for work; Ctrl-C stops")
        with count_progress(session.output, "embedded", total=None) as advance:
            await app.run_worker(stop, progress=advance, expired=partial(tell_expired, session.output))

    with_app(session, use)


async def drain(app: App, output: Output, *, every_org: bool = False) -> None:
    """Untangle and embed what is waiting, with bars, and erase what rooms no longer keep.

    In every org also what is missing: what was embedded with another model, or never untangled.
    """
    rooms = (await app.waiting("untangle", every_org=every_org)).waiting
    waiting = (await app.waiting(every_org=every_org)).waiting
    if not (rooms or waiting or every_org):
        return
    with job_progress(output, waiting=waiting) as (untangled, embedded):
        drained = await app.drain(embedded, untangled=untangled, every_org=every_org)
    output.chatter.print(
        f"untangled {count_phrase(drained.untangled, 'message')}, drew {count_phrase(drained.remembered, 'memory', 'memories')},"
        f" embedded {count_phrase(drained.done, 'text')}"
    )
    if drained.expired:
        tell_expired(output, drained.expired)
    for what in drained.failing:
        output.chatter.print(f"not copied: {what}; the worker tries again", style="yellow", markup=False)
    for what in drained.unembedded:
        output.chatter.print(f"waits to be embedded: {what}", style="yellow", markup=False)
    if drained.set_aside:
        output.chatter.print(
            f"{count_phrase(drained.set_aside, 'piece')} of work ended in errors and went aside;"
            " roomlore worker --drain --retry tries them again",
            style="yellow",
        )


def tell_expired(output: Output, count: int) -> None:
    """Say how much retention erased: nothing goes in silence."""
    output.chatter.print(f"erased {count_phrase(count, 'message')} that rooms no longer keep")
