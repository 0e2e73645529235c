"""Disentangles a room: finds who answers whom, and which messages are one conversation.

Except for `erased_names`, nothing in this package reads a database.
"""
