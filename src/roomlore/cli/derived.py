"""Verbs that are derived from operations.

The signature of a service's method gives their arguments, options, limits and help. The service is imported when the
verb is called, or when somebody asks for its help.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin

import click

from roomlore.cli.param_types import JsonObject, SpanType, TimeType
from roomlore.cli.session import Session, with_app
from roomlore.operations import App

if TYPE_CHECKING:
    from roomlore.operations.registry import Operation, Parameter, Signature

#: The services, by the properties of the App that hold them.
SERVICES: Mapping[str, str] = {
    "agents": "agents:Agents",
    "conversations": "conversations:Conversations",
    "extraction": "jobs:Extraction",
    "embedding_versions": "embedding_versions:EmbeddingVersions",
    "graph": "graph:GraphQueries",
    "intake": "intake:Intake",
    "keys": "keys:Keys",
    "memories": "memories:Memories",
    "monitoring": "monitoring:Monitoring",
    "people": "people:People",
    "projections": "projection_service:Projections",
    "room_admin": "rooms:RoomManagement",
    "privacy_requests": "privacy:PrivacyRequests",
}
#: The help of options that no docstring explains.
COMMON_HELP = {"limit": "How many at most.", "room": "The room of the message."}
#: The metavars of options that accept more than plain text.
METAVARS = {
    **dict.fromkeys(("about", "by", "involving", "participant", "present", "to"), "NAME"),
    **dict.fromkeys(("reply_to", "sources", "trigger"), "MESSAGE"),
    "external_id": "ID",
    "seen_by": "AGENT",
    "supersedes": "MEMORY",
}
#: If an option has more choices than this, its help text lists them instead of its metavar.
MAX_CHOICES = 6


class DerivedCommand(click.Command):
    """A verb that takes the arguments of an operation.

    Args:
        operation: A property of the App and a method, for example `keys.revoke`.
        spellings: Other spellings of arguments, by the names in the signature. The spelling of an option begins with
            `--`; the spelling of an argument is in capitals.
        omit: Arguments that the verb does not take.
    """

    def __init__(
        self,
        *args: Any,
        operation: str,
        spellings: Mapping[str, str] | None = None,
        omit: Sequence[str] = (),
        **attrs: Any,
    ) -> None:
        super().__init__(*args, **attrs)
        self._service, _, self._method = operation.partition(".")
        self._spellings, self._omit = spellings or {}, omit

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the verb's own arguments, the parameters of the operation, then other options."""
        own = super().get_params(ctx)
        arguments = [one for one in own if isinstance(one, click.Argument)]
        return [*arguments, *self._operation_params, *(one for one in own if one not in arguments)]

    @cached_property
    def _function(self) -> Callable[..., Any]:
        module, _, name = SERVICES[self._service].partition(":")
        return getattr(getattr(import_module(f"roomlore.operations.{module}"), name), self._method)

    @cached_property
    def _signature(self) -> "Signature":
        from roomlore.operations.registry import signature_of  # noqa: PLC0415  a list of rooms does not need it

        return signature_of(self._function)

    @cached_property
    def _operation_params(self) -> list[click.Parameter]:
        from roomlore.operations.registry import argument_help  # noqa: PLC0415  as above

        helps = dict(argument_help(self._function))
        for _, details in filter(None, [self._signature.details]):
            helps |= argument_help(details)
        taken = [one for one in self._signature.parameters if one.name not in self._omit]
        return [_to_click(one, self._spellings.get(one.name), helps.get(one.name)) for one in taken]


class OperationCommand(DerivedCommand):
    """A verb that calls one operation. The verb's function prints the result as text.

    Args:
        create_org: Whether the org is created if it is missing.
    """

    def __init__(self, *args: Any, create_org: bool = False, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self._create_org = create_org

    def invoke(self, ctx: click.Context) -> None:
        """Call the operation and print its result."""
        session: Session = ctx.obj

        async def use(app: App) -> None:
            result = await self._call(session, app, given_arguments(ctx.params))
            if session.output.as_json:
                from roomlore.operations.responses import to_document  # noqa: PLC0415  text output does not need it

                declared: Operation | None = getattr(self._function, "__operation__", None)
                document = result if declared is None else to_document(declared, result)
                session.output.json({} if document is None else document)
            else:
                cast("Callable[..., None]", self.callback)(session.output, result)

        with_app(session, use, create_org=self._create_org)

    async def _call(self, session: Session, app: App, arguments: Mapping[str, Any]) -> Any:
        if self._signature.takes_viewer:
            call = getattr(getattr(app, self._service), self._method)
            return await call(await session.viewer_in(app), **arguments)
        return await getattr(getattr(await session.impersonate(app), self._service), self._method)(
            **arguments
        )


def given_arguments(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, without the arguments that were left out."""
    return {name: value for name, value in params.items() if value is not None and value != ()}


def _to_click(parameter: "Parameter", spelling: str | None, about: str | None) -> click.Parameter:
    from roomlore.operations.registry import without_none  # noqa: PLC0415  as above

    kind = without_none(parameter.type)
    is_many = get_origin(_base(kind)) in {Sequence, list}
    item = get_args(_base(kind))[0] if is_many else kind
    is_argument = not parameter.is_keyword and (parameter.is_required or parameter.default is None)
    if spelling is not None:
        is_argument = not spelling.startswith("--")
    if is_argument:
        return _argument(parameter, _param_type(item), spelling or parameter.name.upper(), many=is_many)
    name = parameter.name.removesuffix("s") if is_many else parameter.name
    flags = [spelling or f"--{name.replace('_', '-')}", parameter.name]
    if _base(item) is bool:
        return click.Option(flags, is_flag=True, default=None, help=about)
    return _option(
        parameter, _param_type(item), flags, about or COMMON_HELP.get(parameter.name), many=is_many
    )


def _argument(
    parameter: "Parameter", kind: click.ParamType[Any], metavar: str, *, many: bool
) -> click.Argument:
    shown = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else metavar
    shown = f"{shown.removesuffix('S')}..." if many else shown
    return click.Argument(
        [parameter.name],
        type=kind,
        required=parameter.is_required,
        nargs=-1 if many else 1,
        metavar=shown if parameter.is_required else f"[{shown}]",
    )


def _option(
    parameter: "Parameter", kind: click.ParamType[Any], flags: Sequence[str], about: str | None, *, many: bool
) -> click.Option:
    word = flags[0].removeprefix("--").replace("-", "_").upper()
    metavar = METAVARS.get(parameter.name, word) if kind is click.STRING else None
    notes = [about] if about else []
    if isinstance(kind, click.Choice) and len(kind.choices) > MAX_CHOICES:
        metavar = word
        notes.append(f"One of {', '.join(map(str, kind.choices))}.")
    notes += ["Repeatable."] if many else []
    default = parameter.default if not (parameter.is_detail or parameter.is_required) else None
    # No default is passed instead of None, because click would take None for a value, even of a required option.
    given: dict[str, Any] = (
        {} if default in {None, ()} else {"default": default, "show_default": default != ""}
    )
    return click.Option(
        flags,
        type=kind,
        required=parameter.is_required,
        multiple=many,
        metavar=metavar,
        help=" ".join(notes),
        **given,
    )


def _base(kind: Any) -> Any:
    return _base(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _param_type(kind: Any) -> click.ParamType[Any]:
    base, notes = _base(kind), getattr(kind, "__metadata__", ())
    found = [(name, getattr(note, name, None)) for note in notes for name in ("ge", "le")]
    limits = {name: limit for name, limit in found if limit is not None}
    if get_origin(base) is Literal:
        return click.Choice(get_args(base))
    if get_origin(base) is Mapping:
        return JsonObject()
    if base in {int, float}:
        number = click.IntRange if base is int else click.FloatRange
        plain = click.INT if base is int else click.FLOAT
        return number(min=limits.get("ge"), max=limits.get("le")) if limits else plain
    return {datetime: TimeType(), timedelta: SpanType()}.get(base, click.STRING)
