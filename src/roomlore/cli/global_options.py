"""Options that every verb takes, before the verb or after it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from roomlore.cli.commands import Verb

if TYPE_CHECKING:
    from roomlore.cli.session import Session

#: The key of `click.Context.meta` for the values so far. A later option replaces an earlier one.
OPTIONS_KEY = "roomlore.global_options"

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option(
        "--data", type=click.Path(path_type=Path), help="Folder of the embedded database. [.roomlore]"
    ),
    click.option("--database", metavar="URL", help="Use this PostgreSQL instead of the embedded one."),
    click.option("--org", metavar="NAME", help="Org to use. [default]"),
    click.option(
        "--as", "viewer", metavar="VIEWER", help="Act as this participant: name, account or id. [operator]"
    ),
    click.option("--json/--text", "as_json", default=None, help="JSON for programs, or text. [text]"),
    click.option("-q", "--quiet", is_flag=True, default=None, help="No progress bars and no notes."),
)


def global_options(*, hidden: bool) -> list[click.Option]:
    """Return the global options as parameters of a command."""

    def nothing() -> None: ...

    for option in reversed(_OPTIONS):
        option(nothing)
    params = cast("list[click.Option]", list(reversed(nothing.__click_params__)))  # pyright: ignore[reportFunctionMemberAccess]
    for param in params:
        param.hidden, param.expose_value, param.callback = hidden, False, _store_option
    return params


class GlobalOptionsGroup(click.Group):
    """The group of all verbs. Verbs also take the options of the group, and are imported when they are called."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = global_options(hidden=False) + self.params
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  as in click
        """Return the names of the verbs."""
        return sorted(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb and return it; None if there is no such verb."""
        if cmd_name not in self.commands and cmd_name in self.verbs:
            module, _, name = self.verbs[cmd_name].location.partition(":")
            self.add_command(getattr(import_module(f"roomlore.cli.{module}"), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        listed = [click.Command(name, help=verb.help) for name, verb in self.verbs.items()]
        click.Group(commands=listed).format_commands(ctx, formatter)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a verb. Add the global options to the verb and to its subcommands."""
        _add_options(cmd)
        super().add_command(cmd, name)


def _add_options(command: click.Command) -> None:
    own = {spelling for param in command.params for spelling in (*param.opts, *param.secondary_opts)}
    command.params.extend(
        one for one in global_options(hidden=True) if not own & {*one.opts, *one.secondary_opts}
    )
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _add_options(inner)


def _store_option(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Store the value of a global option, and replace the session by a session with all options so far."""
    given: dict[str, Any] = ctx.meta.setdefault(OPTIONS_KEY, {})
    is_given = value is not None and bool(param.name)
    if is_given:
        given[param.name] = value
    if is_given or ctx.obj is None:
        ctx.obj = _session(given)
    return value


def _session(given: dict[str, Any]) -> "Session":
    # `--help` does not need these options.
    from dataclasses import replace  # noqa: PLC0415

    from roomlore.cli.output import Output  # noqa: PLC0415
    from roomlore.cli.session import Session  # noqa: PLC0415
    from roomlore.settings import from_environment  # noqa: PLC0415

    known = from_environment()
    named = {name: given[name] for name in ("data", "database", "org") if name in given}
    output = Output.to_streams(as_json=given.get("as_json", False), quiet=given.get("quiet", False))
    return Session(settings=replace(known, **named), output=output, viewer=given.get("viewer"))
