"""Routes that are written by hand, by resource."""
