"""The command line: the verbs there are, and how a call ends."""

import os
import sys

import click

from roomlore.cli.commands import VERBS
from roomlore.cli.exit import Terminated, printable
from roomlore.cli.global_options import GlobalOptionsGroup
from roomlore.domain.errors import RoomloreError

INTERRUPTED, TERMINATED, BROKEN_PIPE = 130, 143, 141


def run() -> None:
    """Run the command line; a user's mistake ends in one readable line, never in a traceback."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  ends with the process
    try:
        # Outside standalone mode an early exit comes back as its code.
        sys.exit(cli.main(standalone_mode=False) or 0)
    except (click.exceptions.Abort, KeyboardInterrupt) as end:
        click.echo("interrupted; what was stored so far stays, and it is safe to run this again", err=True)
        sys.exit(TERMINATED if isinstance(end, Terminated) else INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RoomloreError as error:
        click.echo(f"roomlore: {printable(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has gone; what is left of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        click.echo(f"roomlore: {error.strerror or type(error).__name__}", err=True)
        sys.exit(1)
    except Exception as error:
        # The last resort: a fault of ours. Its text may quote what somebody said, so its kind alone is shown.
        if os.environ.get("ROOMLORE_TRACEBACK"):
            raise
        click.echo(
            f"roomlore: unexpected {type(error).__name__}, which is a fault in Roomlore; nothing was left"
            " half-written. ROOMLORE_TRACEBACK=1 shows where it came from",
            err=True,
        )
        sys.exit(1)


@click.group(
    cls=GlobalOptionsGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="roomlore")
def cli() -> None:
    """Conversation memory for rooms full of people and agents.

    The options stand before the verb or after it.
    """
