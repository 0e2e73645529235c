"""Which verbs there are: what the list of them says of each, and where it is defined.

A verb's module is imported when the verb is called. What is said here is what the verb's own help begins with.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of the command line."""

    #: module:name, below this package.
    home: str
    #: The first sentence of its help.
    help: str


VERBS: Mapping[str, Verb] = {
    "agents": Verb("agents:agents", "What agents remember, make of others, and are given unasked."),
    "ask": Verb("search:ask", "Answer from what was said, with sources, or say that it is not known."),
    "context": Verb(
        "search:context",
        "Print what an agent should read before it answers a message of ROOM, with sources.",
    ),
    "conversation": Verb("conversations:conversation", "Read a conversation, or put right what is in it."),
    "conversations": Verb("conversations:list_", "List conversations, newest first: of ROOM, or everywhere."),
    "correct": Verb(
        "memories:correct", "Put TEXT in the place of MEMORY; the old one stays as history, marked as such."
    ),
    "demo": Verb(
        "demo:demo",
        "Load a small story and show what an agent gets: context, search, a refusal, an honest no.",
    ),
    "doctor": Verb(
        "database:doctor", "Look whether everything needed is there, and say how to mend what is not."
    ),
    "embed": Verb(
        "embedding:embed",
        "Choose the embedding model of the org: `default`, or one that ROOMLORE_EMBEDDINGS names.",
    ),
    "embedding": Verb(
        "monitoring:embedding",
        "Say what ROOM embeds: each message, or of an exchange only what opens it, which carries the answers.",
    ),
    "extract": Verb(
        "extraction:extract",
        "Draw memories at once, also from conversations that still go on: of a room, of one conversation, or of all.",
    ),
    "forget": Verb(
        "erasure:forget",
        "Erase for good a message, a stretch of a room or a person, with a receipt; or put a memory aside.",
    ),
    "graph": Verb("graph:graph", "Ask who said what, who talked to whom, and who knows what about whom."),
    "import": Verb(
        "import_run:import_",
        "Read exports: Discord, Slack (folder or zip), Telegram, IRC, or our own JSON lines.",
    ),
    "keep": Verb("retention:keep", "Say how long ROOM keeps what was said; the worker erases what is older."),
    "keys": Verb("keys:keys", "Make, list and revoke keys, which let others in."),
    "log": Verb(
        "people:log",
        "Show who read or changed what, newest first: keys, viewers and ids, never what was said.",
    ),
    "mcp": Verb(
        "mcp_server:mcp",
        "Serve the Model Context Protocol on standard input and output, to the program that starts this.",
    ),
    "memories": Verb("memories:memories", "List what is remembered and stands, newest first."),
    "merge": Verb(
        "people:merge", "Say that ONE and OTHER are accounts of one person, who then reads what either may."
    ),
    "migrate": Verb("database:migrate", "Bring the database to the schema of this version."),
    "ops": Verb(
        "monitoring:ops",
        "Show how far the work has come in each room, how messages stand in exchanges, how long reads take.",
    ),
    "people": Verb(
        "people:people",
        "List who takes part, or the accounts of NAME: a name, an account, an id or the beginning of an id.",
    ),
    "project": Verb(
        "projections:project",
        "Keep copies in Qdrant and Neo4j: rebuildable, and never asked for what a viewer may not see.",
    ),
    "readings": Verb(
        "extraction:readings",
        "Show what a language model was shown of conversations, what it said, and what became of that.",
    ),
    "receipts": Verb(
        "erasure:receipts",
        "List receipts of erasures, newest first, or show the one with this ID or its beginning.",
    ),
    "redact": Verb(
        "erasure:redact",
        "Take the words of MESSAGE back, and all that was made from them; its place and author stay.",
    ),
    "remember": Verb(
        "memories:remember",
        "Keep TEXT as a memory, seen by those who may read every message it rests on, and say who that is.",
    ),
    "restore": Verb(
        "memories:restore",
        "Let MEMORY stand again, which was forgotten or superseded; beside what took its place, if anything did.",
    ),
    "rooms": Verb(
        "rooms:rooms",
        "List the rooms, most recently active first; or open, close, rename or delete one, or see to its members.",
    ),
    "search": Verb("search:search", "Find what was said, as whole exchanges with their sources."),
    "serve": Verb(
        "server:serve",
        "Serve pages, and the HTTP API under /v1, to whoever comes with a key, and do the work that waits.",
    ),
    "show": Verb("search:show", "Show the newest messages of ROOM: name, id or external id."),
    "split": Verb(
        "people:split",
        "Take ACCOUNT away from the person it was merged with, and show whom it was parted from.",
    ),
    "why": Verb("memories:why", "Show what MEMORY rests on: an id, or the beginning of one."),
    "wishes": Verb(
        "privacy_requests:wishes",
        "List the requests heard in rooms, newest first, with what they cover and for whom.",
    ),
    "worker": Verb(
        "worker:worker",
        "Untangle messages and embed them and memories as they arrive, in every org of the database.",
    ),
}
