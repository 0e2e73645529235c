"""The services that declare operations, by the names of the properties of `App`."""

from collections.abc import Mapping

from roomlore.operations.agents import Agents
from roomlore.operations.conversations import Conversations
from roomlore.operations.erasure import Erasures
from roomlore.operations.intake import Intake
from roomlore.operations.keys import Keys
from roomlore.operations.memories import Memories
from roomlore.operations.monitoring import Monitoring
from roomlore.operations.people import People
from roomlore.operations.privacy import PrivacyRequests
from roomlore.operations.rooms import RoomManagement

SERVICES: Mapping[str, type] = {
    "agents": Agents,
    "conversations": Conversations,
    "erasure": Erasures,
    "intake": Intake,
    "keys": Keys,
    "memories": Memories,
    "monitoring": Monitoring,
    "people": People,
    "room_admin": RoomManagement,
    "privacy_requests": PrivacyRequests,
}
