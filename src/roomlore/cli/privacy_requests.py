"""Verbs about privacy requests that people make in rooms."""

from collections.abc import Mapping, Sequence

import click

from roomlore.cli.derived import OperationCommand
from roomlore.cli.output import Output
from roomlore.cli.session import Session, with_app
from roomlore.domain.ids import short_ids
from roomlore.domain.phrases import count_phrase
from roomlore.domain.rendering import as_one_line, safe_name
from roomlore.operations import App
from roomlore.operations.privacy import PrivacyRequestView, RequestMode

#: What detects most requests. Any other detector is named.
RULES = "rules"
MODE_TEXTS: Mapping[RequestMode, str] = {
    "on": "clear requests are applied, the others proposed",
    "propose": "requests are proposed, and applied only when somebody accepts them",
    "off": "no request is detected, and nothing is hidden",
}
#: The maximum number of covered messages that are shown for a request.
SHOWN = 5


@click.group()
def privacy() -> None:
    """List the privacy requests that people made in rooms; apply or dismiss them."""


@privacy.command(cls=OperationCommand, operation="privacy_requests.all")
def requests(output: Output, found: Sequence[PrivacyRequestView]) -> None:
    """List privacy requests, newest first: their meaning, the messages they cover, and who may see those.

    You see your own requests, an operator sees all. A proposed request hides nothing until its author or an operator
    applies it.
    """
    show_requests(output, found)


@privacy.command(cls=OperationCommand, operation="privacy_requests.apply", spellings={"request": "REQUEST"})
def apply(output: Output, request: PrivacyRequestView) -> None:
    """Apply REQUEST, which was proposed or dismissed."""
    output.chatter.print("applied")
    show_requests(output, [request])


@privacy.command(cls=OperationCommand, operation="privacy_requests.dismiss", spellings={"request": "REQUEST"})
def dismiss(output: Output, request: PrivacyRequestView) -> None:
    """Dismiss REQUEST: the messages it covered are used again."""
    output.chatter.print("dismissed")
    show_requests(output, [request])


@privacy.command()
@click.argument("mode", required=False, type=click.Choice(list(MODE_TEXTS)))
@click.pass_obj
def mode(session: Session, mode: RequestMode | None) -> None:
    """Print how requests are handled, or set it to on, propose or off. For operators.

    on applies clear requests and proposes the others. propose proposes every new request. off detects none, and uses
    what was hidden again until you set another mode.
    """

    async def use(app: App) -> None:
        acting = await session.impersonate(app)
        now = (
            await acting.privacy_requests.mode()
            if mode is None
            else await acting.privacy_requests.set_mode(mode)
        )
        session.output.result({"mode": now}, f"{now}: {MODE_TEXTS[now]}")

    with_app(session, use)


def show_requests(output: Output, found: Sequence[PrivacyRequestView]) -> None:
    """Print requests: the meaning of each, then its message, then the messages it covers."""
    if not found:
        output.text("no privacy requests", style="dim")
    short = short_ids(one.id for one in found)
    for one in found:
        when = "" if one.said_at is None else f" {one.said_at:%Y-%m-%d %H:%M}"
        detector = "" if one.detected_by == RULES else f", detected by {safe_name(one.detected_by)}"
        output.text(f"{short[one.id]} ({_status_text(one)}{request_text(one)}{detector})")
        message = f"[{safe_name(one.author_name)}]: {as_one_line(one.body)}"
        author = "by somebody who was erased" if one.message_id is None else message
        output.text(f"  {safe_name(one.room_name)}{when} {author}")
        if one.status == "proposed":
            reason = one.review_reason or "the mode is propose"
            output.text(f"  proposed, since {reason}: apply or dismiss it", style="yellow")
        covered = [message for message in one.covered_messages if message.id != one.message_id]
        if covered:
            covers = "would cover" if one.status == "proposed" else "covers"
            output.text(f"  {covers} {count_phrase(len(covered), 'other message')}", style="dim")
        for message in covered[:SHOWN]:
            text = f"[{safe_name(message.author_name)}]: {as_one_line(message.body)}"
            output.text(f"    {message.sent_at:%Y-%m-%d} {text}", style="dim")


def _status_text(request: PrivacyRequestView) -> str:
    if request.status == "proposed":
        return "proposed, hides nothing; "
    when = "" if request.decided_at is None else f" {request.decided_at:%Y-%m-%d}"
    return f"dismissed{when}; " if request.status == "dismissed" else ""


def request_text(request: PrivacyRequestView) -> str:
    """Return the meaning of a request in words."""
    if request.kind == "forget":
        return "forgotten: shown to nobody"
    if request.kind == "confidential":
        return f"off the record: shown to {_joined(request.exempt_names)} only"
    about = f", but {_joined(request.allowed_topics)}" if request.allowed_topics else ""
    about = f": what is about {_joined(request.denied_topics)}" if request.denied_topics else about
    return f"kept from {_joined(request.restricted_names or ())}{about}"


def _joined(words: Sequence[str]) -> str:
    return ", ".join(safe_name(word) for word in words) or "nobody"
