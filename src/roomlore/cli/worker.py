"""The background worker, until a signal or until nothing is pending."""

from functools import partial

import click

from roomlore.cli.output import Output
from roomlore.cli.progress import count_progress, job_progress
from roomlore.cli.session import Session, stop_on_signals, with_app
from roomlore.domain.phrases import count_phrase
from roomlore.operations import App


@click.command()
@click.option("--drain", "until_done", is_flag=True, help="Exit when nothing is pending.")
@click.option("--retry", is_flag=True, help="First queue failed work again.")
@click.pass_obj
def worker(session: Session, *, until_done: bool, retry: bool) -> None:
    """Run the background work of every org: conversations, memories, embeddings, indexes and retention."""

    async def use(app: App) -> None:
        if retry:
            again = await app.retry(every_org=True)
            session.output.chatter.print(f"{count_phrase(again, 'failed task')} queued again")
        if until_done:
            await drain(app, session.output, every_org=True)
            return
        stop = stop_on_signals()
        session.output.chatter.print("waiting for work; Ctrl-C stops")
        with count_progress(session.output, "embedded", total=None) as advance:
            await app.run_worker(stop, progress=advance, expired=partial(print_expired, session.output))

    with_app(session, use)


async def drain(app: App, output: Output, *, every_org: bool = False) -> None:
    """Do the pending work, with progress bars, and apply retention.

    With `every_org`, this includes messages that were never queued, or that were embedded with another model.
    """
    rooms = (await app.waiting("disentangle", every_org=every_org)).waiting
    waiting = (await app.waiting(every_org=every_org)).waiting
    if not (rooms or waiting or every_org):
        return
    with job_progress(output, waiting=waiting) as (disentangled, embedded):
        drained = await app.drain(embedded, disentangled=disentangled, every_org=every_org)
    output.chatter.print(
        f"disentangled {count_phrase(drained.disentangled, 'message')},"
        f" extracted {count_phrase(drained.remembered, 'memory', 'memories')}, embedded {count_phrase(drained.done, 'text')}"
    )
    if drained.expired:
        print_expired(output, drained.expired)
    for what in drained.failing:
        output.chatter.print(f"not indexed: {what}; the worker tries again", style="yellow", markup=False)
    for what in drained.unembedded:
        output.chatter.print(f"not embedded yet: {what}", style="yellow", markup=False)
    if drained.dead_lettered:
        output.chatter.print(
            f"{count_phrase(drained.dead_lettered, 'task')} failed; roomlore worker --drain --retry tries again",
            style="yellow",
        )


def print_expired(output: Output, count: int) -> None:
    """Print how many messages retention erased."""
    output.chatter.print(f"erased {count_phrase(count, 'message')} past their retention")
