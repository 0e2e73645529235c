"""Finds what was said, and says so when it finds nothing."""
