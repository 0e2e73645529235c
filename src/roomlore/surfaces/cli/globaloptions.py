"""Options that every verb understands, before the verb and after it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click

from roomlore.config import from_environment
from roomlore.surfaces.cli.output import Output
from roomlore.surfaces.cli.session import Session

#: Key of `click.Context.meta` under which the given options are kept; a later one wins.
GIVEN = "roomlore.global_options"

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option(
        "--data", type=click.Path(path_type=Path), help="Folder of the embedded database. [.roomlore]"
    ),
    click.option("--database", metavar="URL", help="Use this PostgreSQL instead of the embedded one."),
    click.option("--org", metavar="NAME", help="Whose rooms. [default]"),
    click.option(
        "--as", "viewer", metavar="VIEWER", help="Read as this participant: name, account or id. [operator]"
    ),
    click.option("--json/--text", "as_json", default=None, help="JSON for programs, or text. [text]"),
    click.option("-q", "--quiet", is_flag=True, default=None, help="No progress and no remarks."),
)


def global_options(*, hidden: bool) -> list[click.Option]:
    """Return the global options as parameters of a command; hidden ones are not listed in its help."""

    def nothing() -> None: ...

    for option in reversed(_OPTIONS):
        option(nothing)
    params = cast("list[click.Option]", list(reversed(nothing.__click_params__)))  # pyright: ignore[reportFunctionMemberAccess]
    for param in params:
        param.hidden, param.expose_value, param.callback = hidden, False, _remember
    return params


class GlobalOptions(click.Group):
    """The group of all verbs: its options may also be given to a verb itself, or to a verb of a verb."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = global_options(hidden=False) + self.params

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a verb, which then understands the global options too, and so do the verbs in it."""
        _give(cmd)
        super().add_command(cmd, name)


def _give(command: click.Command) -> None:
    own = {spelling for param in command.params for spelling in (*param.opts, *param.secondary_opts)}
    command.params.extend(
        one for one in global_options(hidden=True) if not own & {*one.opts, *one.secondary_opts}
    )
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        _give(inner)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Keep the value of a global option, and make the session anew with all that was given so far."""
    given: dict[str, Any] = ctx.meta.setdefault(GIVEN, {})
    if value is not None and param.name:
        given[param.name] = value
    ctx.obj = _session(given)
    return value


def _session(given: dict[str, Any]) -> Session:
    known = from_environment()
    named = {name: given[name] for name in ("data", "database", "org") if name in given}
    output = Output.to_streams(as_json=given.get("as_json", False), quiet=given.get("quiet", False))
    return Session(settings=replace(known, **named), output=output, viewer=given.get("viewer"))
