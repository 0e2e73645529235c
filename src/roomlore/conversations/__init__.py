"""Disentangles a room: finds the message that each message answers, and groups the messages into conversations.

Except for `erased_names`, nothing in this package reads a database.
"""
