"""Sets the sensitivity and the label of a conversation on behalf of a person."""

from collections.abc import Collection

from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import ConversationId, OrgId
from roomlore.domain.records import Sensitivity, Viewer
from roomlore.domain.speech import as_one_line
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.store import conversations, directory
from roomlore.store.queries import Connection

#: In characters.
LONGEST_LABEL = 100


async def set_sensitivity(
    conn: Connection,
    org_id: OrgId,
    conversation_id: ConversationId,
    *,
    sensitivity: Sensitivity,
    by: Viewer,
) -> None:
    """Say how sensitive a conversation is, on behalf of an operator or of somebody who has spoken in it.

    Raises:
        NotAllowed: the caller has not spoken in it, or an operator said otherwise.
    """
    if not by.is_operator:
        accounts = await directory.accounts(conn, org_id, by.participant_id)
        found = await conversations.sensitivity_rights(conn, org_id, conversation_id, {one.id for one in accounts})
        if found is None or not found.has_spoken:
            raise NotAllowed("only operators and those who spoke in a conversation say how sensitive it is")
        if found.is_operators:
            raise NotAllowed("an operator said how sensitive it is, and only an operator changes that")
    await conversations.set_sensitivity(
        conn, org_id, conversation_id, sensitivity=sensitivity, by_operator=by.is_operator
    )


async def check_rearranging(
    conn: Connection, org_id: OrgId, ids: Collection[ConversationId], *, by: Viewer
) -> None:
    """Refuse to take messages into or out of a sensitive conversation, unless an operator does.

    Whoever spoke with a message keeps seeing it: nobody else can hide it from them by putting it elsewhere.

    Raises:
        NotAllowed: the caller is no operator, and one of several conversations is sensitive.
    """
    if by.is_operator or len(ids) == 1:
        return
    found = await conversations.by_id(conn, org_id, ids)
    if any(one.sensitivity != "normal" for one in found.values()):
        raise NotAllowed("only operators take messages into or out of a sensitive conversation; ask one to")


def clean_label(label: str) -> str:
    """Return a label as it may be stored and shown: one line without secrets and without marks of ours.

    Raises:
        BadInput: it is too long, or cannot be printed.
    """
    # Secrets last: what is invisible in the midst of one is gone by then.
    text, _ = remove_secrets(as_one_line(storable(label)))
    if len(text) > LONGEST_LABEL:
        raise BadInput("label", f"longer than {LONGEST_LABEL} characters")
    if bool(text) != bool(label.strip()) or not text.isprintable():
        raise BadInput("label", "must be printable")
    return text
