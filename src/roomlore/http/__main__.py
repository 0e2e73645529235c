"""Prints the OpenAPI description, for `docs/openapi.json`."""

import sys

from roomlore.http.application import routes_app
from roomlore.http.openapi import openapi_text

sys.stdout.write(openapi_text(routes_app()))
