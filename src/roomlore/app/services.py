"""The services of an App that declare operations, by the names of its properties."""

from collections.abc import Mapping

from roomlore.app.agents import Agents
from roomlore.app.conversations import Conversations
from roomlore.app.erasures import Erasures
from roomlore.app.intake import Intake
from roomlore.app.keys import Keys
from roomlore.app.memories import Memories
from roomlore.app.operations import Monitoring
from roomlore.app.people import People
from roomlore.app.rooms import RoomManagement
from roomlore.app.wishes import PrivacyRequests

SERVICES: Mapping[str, type] = {
    "agents": Agents,
    "conversations": Conversations,
    "erasure": Erasures,
    "intake": Intake,
    "keys": Keys,
    "memories": Memories,
    "operations": Monitoring,
    "people": People,
    "room_management": RoomManagement,
    "wishes": PrivacyRequests,
}
