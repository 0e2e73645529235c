"""The list of verbs: the help text and the location of each verb.

A verb's module is imported when the verb is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the command line."""

    #: module:name, in this package.
    location: str
    #: The first sentence of the verb's help.
    help: str


VERBS: Mapping[str, Verb] = {
    "agents": Verb("agents:agents", "Show what agents remember and how they rate others; write as an agent."),
    "ask": Verb(
        "search:ask",
        "Answer a question from messages and memories, with sources, or say that the answer is not known.",
    ),
    "audit-log": Verb(
        "people:audit_log",
        "Show who read or changed what, newest first: keys, viewers and ids, never message text.",
    ),
    "backup": Verb(
        "backup:backup",
        "Write everything in the database, of all orgs, to FILE, and check it.",
    ),
    "context": Verb(
        "search:context", "Print the context that an agent needs to answer a message of ROOM, with sources."
    ),
    "conversation": Verb(
        "conversations:conversation", "Read a conversation, or correct which messages belong to it."
    ),
    "conversations": Verb(
        "conversations:conversations", "List conversations, newest first: of ROOM, or of every room."
    ),
    "demo": Verb(
        "demo:demo",
        "Load a small story and show what an agent gets: context, search, visibility, an unknown answer.",
    ),
    "doctor": Verb(
        "database:doctor", "Check that everything Roomlore needs is there, and say how to fix what is not."
    ),
    "erase": Verb(
        "erasure:erase", "Erase a message, a time range of a room, or a person for good, with a receipt."
    ),
    "export": Verb(
        "export_run:export",
        "Write everything as JSON lines to FILE, which `roomlore import` reads elsewhere; `-` is standard output.",
    ),
    "extract": Verb(
        "memories:extract",
        "Extract memories now, also from open conversations: of one room, one conversation, or all.",
    ),
    "graph": Verb("graph:graph", "Ask who wrote what, who talks to whom, and who knows what about whom."),
    "import": Verb(
        "import_run:import_",
        "Import exports of chat platforms, assistants and mailing lists, logs, or JSON lines.",
    ),
    "index": Verb("monitoring:index", "Keep indexes in Qdrant and Neo4j."),
    "keys": Verb("keys:keys", "Create, list and revoke API keys."),
    "llm-calls": Verb(
        "memories:llm_calls",
        "Show calls to the language model for extraction: the prompt, the answer, and what was stored of it.",
    ),
    "mcp": Verb(
        "server:mcp",
        "Serve the Model Context Protocol on standard input and output, to the program that starts this.",
    ),
    "memories": Verb("memories:memories", "List active memories, newest first."),
    "digest": Verb("memories:digest", "Show what a room learned since you last wrote there."),
    "memory": Verb("memories:memory", "Correct, archive or restore a memory, or show where it comes from."),
    "merge": Verb(
        "people:merge",
        "Make ONE and OTHER accounts of one person, who may then read what either of them may.",
    ),
    "messages": Verb("search:messages", "Show the newest messages of ROOM: a name, id or external id."),
    "migrate": Verb(
        "migration:migrate",
        "Update the database to the schema of this version; or migrate the store of another program.",
    ),
    "model": Verb(
        "monitoring:model",
        "Choose the embedding model of the org: `default`, or a name from ROOMLORE_EMBEDDINGS.",
    ),
    "people": Verb(
        "people:people",
        "List the participants; or the accounts of NAME: a name, an account, or the start of an id.",
    ),
    "privacy": Verb(
        "privacy_requests:privacy",
        "List the privacy requests that people made in rooms; apply or dismiss them.",
    ),
    "receipts": Verb(
        "erasure:receipts",
        "List the receipts of erasures, newest first, or show the one with this ID or start of an id.",
    ),
    "redact": Verb(
        "erasure:redact",
        "Remove the text of MESSAGE and everything derived from it; its place and author stay.",
    ),
    "remember": Verb("memories:remember", "Store TEXT as a memory."),
    "restore": Verb(
        "backup:restore",
        "Fill an empty database from SOURCE: a backup, or the data folder or URL of another database.",
    ),
    "retention": Verb(
        "erasure:retention", "Set how long ROOM keeps its messages; the worker erases older ones."
    ),
    "rooms": Verb(
        "rooms:rooms",
        "List the rooms, most recently active first; or open, close, rename or delete one, or change its members.",
    ),
    "search": Verb("search:search", "Search messages; results are whole threads with sources."),
    "serve": Verb(
        "server:serve", "Serve the pages and the HTTP API under /v1, and run the workers; clients need a key."
    ),
    "split": Verb(
        "people:split",
        "Separate ACCOUNT from the person it was merged with, and list the other accounts of that person.",
    ),
    "stats": Verb(
        "monitoring:stats",
        "Show the progress of the background work in each room, statistics of threads, and read latencies.",
    ),
    "worker": Verb(
        "worker:worker",
        "Run the background work of every org: conversations, memories, embeddings, indexes and retention.",
    ),
}
