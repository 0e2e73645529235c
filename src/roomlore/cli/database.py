"""The verb that checks the installation."""

import asyncio

import click

from roomlore import doctor as examination
from roomlore.cli.session import Session


@click.command()
@click.option("--stop", is_flag=True, help="Stop the embedded database of the data folder.")
@click.option("--force", is_flag=True, help="With --stop: even if another process uses it.")
@click.pass_obj
def doctor(session: Session, *, stop: bool, force: bool) -> None:
    """Check that everything Roomlore needs is there, and say how to fix what is not."""
    if stop:
        stopped = asyncio.run(examination.stop_database(session.settings, force=force))
        session.output.chatter.print("stopped" if stopped else "was not running")
        return
    findings = asyncio.run(examination.run_checks(session.settings))
    session.output.findings(findings)
    if not all(finding.is_well for finding in findings):
        raise click.exceptions.Exit(1)
