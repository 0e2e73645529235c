"""Roles: what somebody who comes with a key may do besides reading what they may see.

An operator may everything in the org, and read as anybody. An agent and a member each have one viewer, the
participant whom their key names.
"""

from collections.abc import Mapping
from typing import Literal

Role = Literal["operator", "agent", "member"]
#: `speak`: say something in rooms, and edit it; `remember`: assert memories; `correct`: say what is wrong with memories of oneself, and put such aside; `arrange`: say what belongs to which conversation, as far as the viewer may see
#: these; `erase own`: what the viewer wrote, and the viewer; `administer`: all else.
Right = Literal["speak", "remember", "correct", "arrange", "erase own", "administer"]

RIGHTS: Mapping[Role, frozenset[Right]] = {
    "operator": frozenset({"speak", "remember", "correct", "arrange", "erase own", "administer"}),
    "agent": frozenset({"speak", "remember", "correct", "erase own"}),
    "member": frozenset({"correct", "arrange", "erase own"}),
}
