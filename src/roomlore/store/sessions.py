"""What holds in every session, whatever the application's own role was told to begin with.

A role may change the settings that its sessions begin with, and they outlive restarts: whoever runs SQL as the
application could so break every later session. PostgreSQL cannot forbid it. So what matters is stated as each session
begins, which counts before what a role was told, and what the role was told is taken back.
"""

from typing import LiteralString

import psycopg

from roomlore.store.logins import ROLE_SETTINGS, reset_role_settings
from roomlore.store.queries import Connection

# Temporary tables come last in the search path, or one of them could stand in for a table of ours.
_SESSION_SETTINGS: dict[LiteralString, LiteralString] = {
    "search_path": "roomlore,public,pg_temp",
    "timezone": "UTC",
    "datestyle": "ISO,MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "row_security": "on",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # For whom a session reads is stated by each transaction; without, it is for nobody.
    "roomlore.org": "",
    "roomlore.viewer": "",
    "roomlore.place": "",
    "roomlore.place_bounds": "",
    "roomlore.recall": "off",
    "roomlore.looking": "off",
}
#: How a session begins.
SESSION_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SESSION_SETTINGS.items())


class StaleSession(psycopg.OperationalError):
    """A session began as its role was told; the next one does not."""


async def reset_session(conn: Connection) -> bool:
    """Take back what the application's role was told to begin its sessions with; return whether it was told anything.

    As that role: each may say so of itself.
    """
    rows = await (await conn.execute(ROLE_SETTINGS)).fetchall()
    for (database,) in rows:
        await conn.execute(reset_role_settings(database))
    return bool(rows)
