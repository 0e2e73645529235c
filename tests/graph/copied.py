"""An App whose graph is copied to a real Neo4j."""

from dataclasses import replace

import pytest

from roomlore.operations import App, graph
from roomlore.operations.candidates import ProjectionClients
from roomlore.projections.neo4j import open_neo4j
from roomlore.settings import Neo4jSettings

#: Beside all the machine's other work a question may take longer than anybody would wait for.
PATIENCE = 60.0


def with_neo4j(app: App, server: tuple[str, str, str], patch: pytest.MonkeyPatch) -> App:
    """Return the same org, opened where that server is named and waited for; close its servers afterwards."""
    url, user, password = server
    patch.setattr(graph, "TIMEOUT_SECONDS", PATIENCE)
    opened = open_neo4j(url, user=user, password=password, seconds=PATIENCE)
    settings = replace(app.settings, neo4j=Neo4jSettings(url=url, user=user, password=password))
    return replace(app, settings=settings, _projection_clients=ProjectionClients(_neo4j=opened))
