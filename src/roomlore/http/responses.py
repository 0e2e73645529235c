"""JSON responses of records, in the form that the command line prints with --json."""

from http import HTTPStatus

import pydantic_core
from starlette.responses import Response

from roomlore.http.json_values import public_value, safe_json


def json_response(value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a JSON response. Durations are seconds, and large integers are strings."""
    body = pydantic_core.to_json(public_value(value), timedelta_mode="float", inf_nan_mode="null")
    return Response(safe_json(body), status, media_type="application/json")
