"""Finds what is stated in conversations and worth keeping.

Extractors read the messages of a conversation in order and return statements, each resting on the very words it
was read from. Nobody is credited with words that are not theirs.
"""
