"""Imports organisations of Zulip."""
