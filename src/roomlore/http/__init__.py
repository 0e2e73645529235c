"""The HTTP API: an App under `/v1`, for callers with a key."""
