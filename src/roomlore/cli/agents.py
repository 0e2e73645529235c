"""Verbs about agents: what they remember, what they make of whom they met, what they are given unasked."""

from collections.abc import Sequence
from typing import Any

import click

from roomlore.agents.reply_policy import Decision
from roomlore.agents.trust import Relationship
from roomlore.cli.memories import show_memories
from roomlore.cli.output import Output, plain
from roomlore.cli.people import show_accounts
from roomlore.cli.search import PRIVATE
from roomlore.cli.session import Session, with_app
from roomlore.context.memory_section import DEFAULT_SECTION_BUDGET, MemorySection, section_text
from roomlore.domain.phrases import count_phrase
from roomlore.domain.rendering import safe_name
from roomlore.domain.words import LAST
from roomlore.http.schemas import block_given
from roomlore.operations import App
from roomlore.operations.agents import EXPERIENCE_KINDS
from roomlore.operations.explicit_memories import KINDS
from roomlore.operations.people import OWN_PLATFORM


@click.group()
def agents() -> None:
    """What agents remember, make of others, and are given unasked."""


@agents.command()
@click.argument("agent")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only such. Repeatable.")
@click.option("--task", metavar="TASK", help="Only what belongs to this work.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only with one of these tags. Repeatable.")
@click.option("--topic", metavar="WORDS", help="Only what shares a word with it, or is important.")
@click.option(
    "--with", "present", multiple=True, metavar="NAME", help="Only what has to do with NAME. Repeatable."
)
@click.option("--newest", is_flag=True, help="The newest first, not what weighs most.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many.")
@click.pass_obj
def memories(session: Session, agent: str, **options: Any) -> None:
    """List what AGENT remembers as its own experience, what weighs most first: importance, less the older it is."""

    async def use(app: App) -> None:
        show_memories(
            session.output, await app.agents.memories(await session.viewer_in(app), agent, **options)
        )

    with_app(session, use)


@agents.command()
@click.argument("agent")
@click.option("--topic", metavar="WORDS", help="What is talked about.")
@click.option("--with", "present", multiple=True, metavar="NAME", help="Who is there. Repeatable.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many of a kind."
)
@click.pass_obj
def experiences(session: Session, agent: str, **options: Any) -> None:
    """Show what AGENT remembers for a conversation, by kind."""

    async def use(app: App) -> None:
        found = await app.agents.experiences(await session.viewer_in(app), agent, **options)
        if session.output.as_json:
            return session.output.json(found)
        for kind in EXPERIENCE_KINDS:
            session.output.text(f"{kind}s", style="bold")
            show_memories(session.output, found[kind])
        return None

    with_app(session, use)


@agents.command()
@click.argument("agent")
@click.option("--with", "present", multiple=True, metavar="NAME", help="Only with NAME. Repeatable.")
@click.pass_obj
def relationships(session: Session, agent: str, present: tuple[str, ...]) -> None:
    """Show whom AGENT has met, how far it may trust them, and why."""

    async def use(app: App) -> None:
        viewer = await session.viewer_in(app)
        found = await app.agents.relationships(viewer, agent, present=present)
        show_relationships(session.output, found)

    with_app(session, use)


@agents.command()
@click.argument("agent")
@click.argument("room")
@click.option(
    "--at", "trigger", metavar="MESSAGE", default=LAST, show_default=True, help="The message to answer."
)
@click.option(
    "--topic", metavar="WORDS", help="What it is about; by default what its conversation is called."
)
@click.option(
    "--with", "present", multiple=True, metavar="NAME", help="Who is there; by default who takes part."
)
@click.option(
    "--budget", type=click.IntRange(min=1), default=DEFAULT_SECTION_BUDGET, show_default=True, help="Tokens."
)
@click.option("--explain", is_flag=True, help="Also say why each memory is in or out.")
@PRIVATE
@click.pass_obj
def block(session: Session, agent: str, room: str, *, explain: bool, **options: Any) -> None:
    """Print what AGENT remembers that may matter in ROOM, as it reads it before it answers."""

    async def use(app: App) -> None:
        options["present"] = options["present"] or None
        asked = (await session.acting(app)).agents
        found = await asked.block(await asked.reader(agent), room, **options)
        show_memory_section(session.output, found, explain=explain)

    with_app(session, use)


@agents.command()
@click.argument("agent")
@click.argument("room")
@click.option(
    "--at", "trigger", metavar="MESSAGE", default=LAST, show_default=True, help="The message in question."
)
@click.pass_obj
def decide(session: Session, agent: str, room: str, trigger: str) -> None:
    """Say whether AGENT should answer what was said in ROOM, and why."""

    async def use(app: App) -> None:
        asked = (await session.acting(app)).agents
        show_decision(session.output, await asked.should_answer(await asked.reader(agent), room, trigger))

    with_app(session, use)


@agents.command("note-reply")
@click.argument("agent")
@click.argument("room")
@click.argument("trigger")
@click.argument("reply")
@click.pass_obj
def note_reply(session: Session, agent: str, room: str, **said: str) -> None:
    """Have REPLY, which AGENT gave to TRIGGER in ROOM, remembered by a worker if it is worth it."""

    async def use(app: App) -> None:
        acting = await session.acting(app)
        viewer = await acting.agents.reader(agent)
        acting = acting if acting.access.principal == viewer else app.acting(viewer)
        await acting.agents.note_reply(room, trigger=said["trigger"], reply=said["reply"])
        if session.output.as_json:
            session.output.json({"noted": True})
        else:
            session.output.text("noted")

    with_app(session, use)


@agents.command()
@click.argument("name")
@click.option("--platform", default=OWN_PLATFORM, show_default=True, help="Where it speaks.")
@click.option("--account", metavar="ID", help="Its account there. [NAME]")
@click.pass_obj
def register(session: Session, name: str, platform: str, account: str | None) -> None:
    """Add an agent that has not spoken yet, so that a key can be made for it."""

    async def use(app: App) -> None:
        acting = await session.acting(app)
        show_accounts(
            session.output, [await acting.people.register(name, platform=platform, account=account)]
        )

    with_app(session, use, create_org=True)


@agents.command()
@click.argument("room")
@click.argument("text")
@click.option("--reply-to", metavar="MESSAGE", help="The message it answers.")
@click.option("--to", multiple=True, metavar="NAME", help="Whisper to NAME alone. Repeatable.")
@click.option("--id", "external_id", metavar="ID", help="The platform's id of the message.")
@click.pass_obj
def say(session: Session, room: str, text: str, **options: Any) -> None:
    """Say TEXT in ROOM, as the agent whose key is used or whom --as names."""

    async def use(app: App) -> None:
        said = await (await session.acting(app)).intake.say(room, text, **options)
        if session.output.as_json:
            session.output.json({"said": said})
        else:
            session.output.text(f"said, as message {said}")

    with_app(session, use)


@agents.command()
@click.argument("room")
@click.pass_obj
def compact(session: Session, room: str) -> None:
    """Say that the agents of ROOM begin anew there: what they were given may be given again."""

    async def use(app: App) -> None:
        at = await (await session.acting(app)).agents.compact(room)
        if session.output.as_json:
            session.output.json({"compacted_at": at})
        else:
            session.output.text(f"compacted at {at:%Y-%m-%d %H:%M}")

    with_app(session, use)


@agents.command()
@click.argument("room")
@click.argument("switch", type=click.Choice(["on", "off"]))
@click.pass_obj
def inject(session: Session, room: str, switch: str) -> None:
    """Let the agents of ROOM be given unasked what they may know, or not."""

    async def use(app: App) -> None:
        await (await session.acting(app)).agents.inject(room, on=switch == "on")
        if session.output.as_json:
            session.output.json({"injects": switch == "on"})
        else:
            session.output.text(f"{switch}: what was injected before stays")

    with_app(session, use)


def show_relationships(output: Output, found: Sequence[Relationship]) -> None:
    """Print what an agent makes of whom it met."""
    if output.as_json:
        return output.json(found)
    for one in found:
        bot = " (bot)" if one.kind == "agent" else ""
        last = f"last met {one.last_met_at:%Y-%m-%d}, {count_phrase(one.messages, 'message')} of theirs"
        output.text(f"{one.trust:.2f}  {safe_name(one.name)}{bot}  {last}")
        for reason in one.why:
            output.text(f"      {reason.by:+.2f}  {reason.what}", style="dim")
    return None if found else output.text("nobody was met")


def show_decision(output: Output, decision: Decision) -> None:
    """Print whether an agent should answer, how much speaks for it, and what shows it."""
    if output.as_json:
        return output.json(decision)
    output.text(f"{'yes' if decision.answer else 'no'}  {decision.score:.2f}  {decision.why.what}")
    for what, ids in (("message", decision.why.message_ids), ("memory", decision.why.memory_ids)):
        for one in ids:
            output.text(f"      {what} {one}", style="dim")
    return None


def show_memory_section(output: Output, section: MemorySection, *, explain: bool) -> None:
    """Print a memory block, and with `explain` why each memory is in or out."""
    if output.as_json:
        document = plain(block_given(section, explain=explain))
        return output.json({name: value for name, value in document.items() if value is not None})
    output.text(section_text(section) or "nothing is remembered")
    output.postable_note(section.postable, room="")
    output.chatter.print(
        f"{count_phrase(len(section.lines), 'memory', 'memories')}, {section.tokens} of {count_phrase(section.budget, 'token')}"
    )
    for one in section.explain() if explain else ():
        output.text(
            f"{one.label or 'out':>4}  {one.section:<12} {one.weight:>5.2f}  {one.reason}  {one.memory_id}"
        )
    return None
