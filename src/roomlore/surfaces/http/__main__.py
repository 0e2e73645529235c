"""Prints the description of the API, for `docs/openapi.json`."""

import sys

from roomlore.surfaces.http.description import openapi_text
from roomlore.surfaces.http.server import routes_app

sys.stdout.write(openapi_text(routes_app()))
