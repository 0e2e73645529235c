"""The demo: a small story in the rooms of an island ferry on three platforms, from import to an unknown answer."""

import time
from dataclasses import replace
from importlib import resources
from textwrap import indent

import click

from roomlore.cli.output import Output, hit_json
from roomlore.cli.progress import job_progress
from roomlore.cli.session import Session, with_app
from roomlore.context.render import to_text
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Viewer
from roomlore.operations import App

#: Separates the demo's rooms from yours.
ORG = "demo"
AGENT = "almanac"
ROOM = "harbour"
QUESTION = "berth 3 dredging"
MEMBERS_QUESTION = "what is the starting salary for the new skipper?"
MEMBER, OUTSIDER = "teo", "hal"
UNANSWERABLE = "what is the wifi password in the office?"


@click.command()
@click.pass_obj
def demo(session: Session) -> None:
    """Load a small story and show what an agent gets: context, search, visibility, an unknown answer.

    The story has its own org, "demo".
    """
    settings = replace(session.settings, org=ORG)
    with_app(replace(session, settings=settings), lambda app: run_demo(app, session.output), create_org=True)


async def run_demo(app: App, output: Output) -> None:
    """Load the story and print the import, a context, a search, two viewers, and an unknown answer."""
    began = time.monotonic()
    with resources.as_file(resources.files("roomlore.cli").joinpath("demo.jsonl")) as story:
        report = await app.import_path(story)
    waiting = (await app.waiting()).waiting
    with job_progress(output, waiting=waiting) as (disentangled, embedded):
        await app.drain(embedded, disentangled=disentangled)
    agent = await app.viewer(AGENT)
    if output.as_json:
        output.json(await _document(app, agent, report.as_json()))
        return
    output.text(f"Stored in {time.monotonic() - began:.1f} s", style="bold cyan")
    output.report(report)
    output.text()
    output.rooms(await app.rooms(app.operator))
    await _context(app, output, agent)
    await _search(app, output, agent)
    await _refusal(app, output)
    await _unknown_answer(app, output)
    _heading(output, "All of this in a browser", "serve --local")
    output.text(
        "opens the pages on this machine as operator: rooms, conversations, memories, people, operations"
    )


async def _context(app: App, output: Output, agent: Viewer) -> None:
    _heading(
        output,
        f"The context that the agent {AGENT} needs to answer in #{ROOM}",
        f"--as {AGENT} context {ROOM}",
    )
    context = await app.context(agent, ROOM, budget=900)
    output.text(to_text(context))
    source = context.citations[context.lines[-1].label]
    output.text(
        f"{count_phrase(len(context.lines), 'message')}, {count_phrase(context.tokens, 'token')}; #{source.label} is message {source.external_id}"
        f" by {source.author_name}, {source.sent_at:%d %B %H:%M}",
        style="dim",
    )


async def _search(app: App, output: Output, agent: Viewer) -> None:
    _heading(output, "Messages about the dredging", f'--as {AGENT} search "{QUESTION}"')
    found = await app.search(agent, QUESTION, limit=2)
    for place, hit in enumerate(found.hits, start=1):
        output.thread(place, hit)


async def _refusal(app: App, output: Output) -> None:
    _heading(output, "Only members see this", f'--as NAME ask "{MEMBERS_QUESTION}"')
    for name in (MEMBER, OUTSIDER):
        viewer = await app.viewer(name)
        answer = await app.ask(viewer, MEMBERS_QUESTION)
        role = "a member of #hiring" if name == MEMBER else "not a member"
        output.text(f"{name} ({role}):", style="bold")
        output.text(indent(answer.text, "  "))
        for hit in answer.hits[:1]:
            output.text(f"  source: message {hit.best.external_id} in #{hit.room_name}", style="dim")
        for recalled in answer.memories[:1]:
            for source in (await app.memories.provenance(viewer, str(recalled.memory.id))).sources:
                output.text(
                    f"  source: message {source.message.external_id} in #{source.room_name}", style="dim"
                )


async def _unknown_answer(app: App, output: Output) -> None:
    _heading(output, "An answer that nobody knows", f'ask "{UNANSWERABLE}"')
    output.answer(await app.ask(app.operator, UNANSWERABLE))


def _heading(output: Output, title: str, command: str) -> None:
    output.text()
    output.text(title, style="bold cyan")
    output.text(f"$ roomlore --org {ORG} {command}", style="dim")


async def _document(app: App, agent: Viewer, report: dict[str, object]) -> dict[str, object]:
    context = await app.context(agent, ROOM, budget=900)
    found = await app.search(agent, QUESTION, limit=2)
    answers = {name: await app.ask(await app.viewer(name), MEMBERS_QUESTION) for name in (MEMBER, OUTSIDER)}
    return {
        "stored": report,
        "rooms": await app.rooms(app.operator),
        "context": {"text": to_text(context), "citations": context.citations},
        "search": [hit_json(hit) for hit in found.hits],
        "only_for_members": {name: answer.text for name, answer in answers.items()},
        "unknown": (await app.ask(app.operator, UNANSWERABLE)).text,
    }
