"""Prints the description of the API, for `docs/openapi.json`."""

import sys

from roomlore.surfaces.http.description import written
from roomlore.surfaces.http.server import routed

sys.stdout.write(written(routed()))
