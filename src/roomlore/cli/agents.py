"""Verbs about agents: their memories, how they rate others, when they reply, and injected memories."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from roomlore.agents.reply_policy import Decision
from roomlore.agents.trust import Relationship
from roomlore.cli.derived import DerivedCommand, OperationCommand, given_arguments
from roomlore.cli.memories import show_memories
from roomlore.cli.output import Output, plain
from roomlore.cli.people import show_accounts
from roomlore.cli.session import Session, with_app
from roomlore.context.memory_section import MemorySection, section_text
from roomlore.domain.ids import MessageId
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Account, Memory, MemoryKind
from roomlore.domain.rendering import safe_name
from roomlore.operations import App


@click.group()
def agents() -> None:
    """Show what agents remember and how they rate others; write as an agent."""


@agents.command(cls=OperationCommand, operation="agents.memories")
def memories(output: Output, found: Sequence[Memory]) -> None:
    """List the memories of AGENT's own experience: the most important and most recent first."""
    show_memories(output, found)


@agents.command(cls=OperationCommand, operation="agents.experiences")
def experiences(output: Output, found: Mapping[MemoryKind, Sequence[Memory]]) -> None:
    """List what AGENT remembers for a conversation, by kind."""
    for kind, of_kind in found.items():
        output.text(f"{kind}s", style="bold")
        show_memories(output, of_kind)


@agents.command(cls=OperationCommand, operation="agents.relationships")
def relationships(output: Output, found: Sequence[Relationship]) -> None:
    """Show who AGENT has met, how much it trusts each of them, and why."""
    for one in found:
        bot = " (bot)" if one.kind == "agent" else ""
        output.text(f"{one.trust:.2f}  {safe_name(one.name)}{bot}  {_last_met(one)}")
        for reason in one.reasons:
            output.text(f"      {reason.by:+.2f}  {reason.what}", style="dim")
    if not found:
        output.text("no relationships")


def _last_met(one: Relationship) -> str:
    if one.last_met_at is None:
        return "not met yet"
    return f"last met {one.last_met_at:%Y-%m-%d}, {count_phrase(one.messages, 'message')} from them"


@agents.command(cls=OperationCommand, operation="agents.set_trust")
def trust(output: Output, at: datetime) -> None:
    """State how far AGENT trusts PARTICIPANT, from 0 to 1; what it learns later still changes the computed trust."""
    output.text(f"stated at {at:%Y-%m-%d %H:%M}")


@agents.command("withdraw-trust", cls=OperationCommand, operation="agents.withdraw_trust")
def withdraw_trust(output: Output, withdrawn: int) -> None:
    """Remove the stated trust of AGENT in PARTICIPANT."""
    output.text("withdrawn" if withdrawn else "no trust was stated")


_AT = {"trigger": "--at"}


@agents.command("memory-section", cls=DerivedCommand, operation="agents.memory_section", spellings=_AT)
@click.argument("agent")
@click.option("--explain", is_flag=True, help="Also say why each memory is in or out.")
@click.pass_obj
def memory_section(session: Session, agent: str, *, explain: bool, **options: Any) -> None:
    """Print the memories that AGENT reads before it replies in ROOM."""

    async def use(app: App) -> None:
        acting = (await session.impersonate(app)).agents
        found = await acting.memory_section(await acting.reader(agent), **given_arguments(options))
        show_memory_section(session.output, found, explain=explain)

    with_app(session, use)


@agents.command(cls=DerivedCommand, operation="agents.should_answer", spellings=_AT, omit=["limits"])
@click.argument("agent")
@click.pass_obj
def decide(session: Session, agent: str, room: str, trigger: str) -> None:
    """Say whether AGENT should reply to a message of ROOM, and why."""

    async def use(app: App) -> None:
        acting = (await session.impersonate(app)).agents
        show_decision(session.output, await acting.should_answer(await acting.reader(agent), room, trigger))

    with_app(session, use)


@agents.command("record-reply")
@click.argument("agent")
@click.argument("room")
@click.argument("trigger")
@click.argument("reply")
@click.pass_obj
def record_reply(session: Session, *, agent: str, room: str, trigger: str, reply: str) -> None:
    """Record that AGENT answered TRIGGER with REPLY in ROOM. A worker may make a memory of the exchange."""

    async def use(app: App) -> None:
        acting = await session.impersonate(app)
        viewer = await acting.agents.reader(agent)
        acting = acting if acting.access.principal == viewer else app.impersonate(viewer)
        await acting.agents.record_reply(room, trigger=trigger, reply=reply)
        session.output.result({"recorded": True}, "recorded")

    with_app(session, use)


@agents.command(cls=OperationCommand, operation="people.register", create_org=True, omit=["kind"])
def register(output: Output, account: Account) -> None:
    """Add the agent NAME before its first message, so that you can make a key for it."""
    show_accounts(output, [account])


@agents.command(
    cls=OperationCommand, operation="intake.send", spellings={"external_id": "--id"}, omit=["metadata"]
)
def send(output: Output, message_id: MessageId) -> None:
    """Send TEXT to ROOM as the agent that holds the key, or that --as names."""
    output.text(f"sent message {message_id}")


@agents.command("reset-context", cls=OperationCommand, operation="agents.reset_context")
def reset_context(output: Output, at: datetime) -> None:
    """Start a new context for the agents of ROOM: memories that were injected before may be injected again."""
    output.text(f"context reset at {at:%Y-%m-%d %H:%M}")


@agents.command()
@click.argument("room")
@click.argument("switch", type=click.Choice(["on", "off"]))
@click.pass_obj
def injection(session: Session, room: str, switch: str) -> None:
    """Turn injected memories for the agents of ROOM on or off."""

    async def use(app: App) -> None:
        await (await session.impersonate(app)).agents.set_injection(room, on=switch == "on")
        session.output.result({"injects": switch == "on"}, f"{switch}; memories injected before stay")

    with_app(session, use)


def show_decision(output: Output, decision: Decision) -> None:
    """Print whether an agent should reply, the score, and the evidence."""
    if output.as_json:
        return output.json(decision)
    output.text(f"{'yes' if decision.answer else 'no'}  {decision.score:.2f}  {decision.reason.what}")
    for what, ids in (("message", decision.reason.message_ids), ("memory", decision.reason.memory_ids)):
        for one in ids:
            output.text(f"      {what} {one}", style="dim")
    return None


def show_memory_section(output: Output, section: MemorySection, *, explain: bool) -> None:
    """Print a memory section. With `explain`, also print why each memory is in or out."""
    if output.as_json:
        from roomlore.operations.responses import memory_section_response  # noqa: PLC0415  text output does not need it

        document = plain(memory_section_response(section, explain=explain))
        return output.json({name: value for name, value in document.items() if value is not None})
    output.text(section_text(section) or "no memories")
    output.postable_note(section.postable, room="")
    spent = f"{section.tokens} of {count_phrase(section.budget, 'token')}"
    output.chatter.print(f"{count_phrase(len(section.lines), 'memory', 'memories')}, {spent}")
    for one in section.explain() if explain else ():
        output.text(
            f"{one.label or 'out':>4}  {one.section:<12} {one.weight:>5.2f}  {one.reason}  {one.memory_id}"
        )
    return None
