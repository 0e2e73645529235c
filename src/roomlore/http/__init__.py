"""The HTTP API: the App over `/v1`, for whoever comes with a key."""
