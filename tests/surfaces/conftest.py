"""The command line, on an org of its own."""

import pytest

from roomlore.db.cluster import Cluster
from surfaces.commandline import CommandLine


@pytest.fixture
def roomlore(cluster: Cluster) -> CommandLine:
    return CommandLine(cluster=cluster)
