"""Records as JSON: the very shape that the command line prints with --json."""

from http import HTTPStatus

import pydantic_core
from starlette.responses import Response

from roomlore.http.json_values import public_value, safe_json


def json_response(value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return a response that holds records, ids, times and spans (in seconds) as JSON; large numbers as strings."""
    told = pydantic_core.to_json(public_value(value), timedelta_mode="float", inf_nan_mode="null")
    body = safe_json(told)
    return Response(body, status, media_type="application/json")
