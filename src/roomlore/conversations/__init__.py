"""Disentangles a room: who answers whom, and which messages are one conversation.

Except for `erased_names`, nothing here reads a database.
"""
