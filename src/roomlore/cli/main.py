"""The command line: its entry point, and exit codes."""

import os
import sys

import click

from roomlore.cli.commands import VERBS
from roomlore.cli.exit import Terminated, printable
from roomlore.cli.global_options import GlobalOptionsGroup
from roomlore.domain.errors import RoomloreError

INTERRUPTED, TERMINATED, BROKEN_PIPE = 130, 143, 141


def run() -> None:
    """Run the command line. Errors end in one readable line, not in a traceback."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  None if the parent process closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  ends with the process
    try:
        # Outside standalone mode click returns the exit code.
        sys.exit(cli.main(standalone_mode=False) or 0)
    except (click.exceptions.Abort, KeyboardInterrupt) as end:
        click.echo("interrupted; everything stored so far stays, and you can run this again", err=True)
        sys.exit(TERMINATED if isinstance(end, Terminated) else INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RoomloreError as error:
        click.echo(f"roomlore: {printable(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output has gone. Discard the rest of the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except OSError as error:
        click.echo(f"roomlore: {error.strerror or type(error).__name__}", err=True)
        sys.exit(1)
    except Exception as error:
        # This is a bug. Its text may quote messages, so only its type is shown.
        if os.environ.get("ROOMLORE_TRACEBACK"):
            raise
        click.echo(
            f"roomlore: unexpected {type(error).__name__}, a bug in Roomlore; nothing was left"
            " half-written. ROOMLORE_TRACEBACK=1 shows the traceback",
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

    Options go before the verb or after it.
    """
