"""Verbs that draw memories from what was said, and show what a language model was asked for it."""

from collections.abc import Sequence

import click

from roomlore.cli.output import Output, minute
from roomlore.cli.session import Session, with_app
from roomlore.db.llm_calls import LlmCall
from roomlore.domain.phrases import count_phrase
from roomlore.domain.rendering import safe_text
from roomlore.operations import App
from roomlore.operations.extraction import ExtractionResult


@click.command()
@click.argument("where", required=False, metavar="[ROOM|CONVERSATION]")
@click.pass_obj
def extract(session: Session, where: str | None) -> None:
    """Draw memories at once, also from conversations that still go on: of a room, of one conversation, or of all.

    CONVERSATION is an id or its beginning, or message:MESSAGE for the one that a message is in.
    """

    async def use(app: App) -> None:
        show(session.output, await (await session.acting(app)).extracting.extract(where))

    with_app(session, use)


@click.command()
@click.argument("conversation", required=False)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many of the newest."
)
@click.pass_obj
def readings(session: Session, conversation: str | None, limit: int) -> None:
    """Show what a language model was shown of conversations, what it said, and what became of that.

    CONVERSATION is an id or its beginning, or message:MESSAGE for the one that a message is in.
    """

    async def use(app: App) -> None:
        found = await (await session.acting(app)).extracting.readings(conversation, limit=limit)
        show_llm_calls(session.output, found, whole=conversation is not None)

    with_app(session, use)


def show(output: Output, extracted: ExtractionResult) -> None:
    """Print what came of going through conversations."""
    if output.as_json:
        return output.json(extracted)
    gone_through = f"{count_phrase(extracted.conversations, 'conversation')}, {count_phrase(extracted.messages, 'message')}"
    came = f"{count_phrase(extracted.added, 'memory', 'memories')} added, {extracted.released} let go"
    output.text(f"{gone_through}: {came}")
    if extracted.read or extracted.unread:
        heard = f", {count_phrase(extracted.wishes, 'wish', 'wishes')} heard" if extracted.wishes else ""
        output.text(f"by a language model: {extracted.read} read, {extracted.unread} still to be read{heard}")
    return None


def show_llm_calls(output: Output, found: Sequence[LlmCall], *, whole: bool) -> None:
    """Print readings: one line each, or all that was sent and said."""
    if output.as_json:
        return output.json(found)
    if not found:
        return output.text("no readings")
    for one in found:
        output.text(
            f"{minute(one.asked_at)} {one.conversation_id} {_outcome_text(one)}",
            style="bold" if whole else "",
        )
        if whole:
            output.text(_indented(one.material))
        for verdict in one.verdicts if whole else ():
            reason = str(verdict["reason"])
            kept = (reason or "kept") if verdict["is_kept"] else f"refused: {reason}"
            output.text(f"  {kept}  {_indented(str(verdict['stated']))}")
    return None


def _outcome_text(one: LlmCall) -> str:
    if one.answer is None:
        return f"{one.language_model}: {one.error or 'no answer yet'}"
    kept = sum(bool(verdict["is_kept"]) for verdict in one.verdicts)
    tokens = (
        ""
        if one.sent_tokens is None
        else f", {one.sent_tokens:,} + {count_phrase(one.answer_tokens or 0, 'token')}"
    )
    again = ", as answered before" if one.is_repeated else ""
    return f"{one.language_model}: {kept} of {len(one.verdicts)} statements and wishes kept{tokens}{again}"


def _indented(text: str) -> str:
    return safe_text(text).replace("\n", "\n  | ")
