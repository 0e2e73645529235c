"""Reads the stores of other systems, so that an org can take over their data."""
