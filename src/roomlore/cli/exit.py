"""Termination of a command, and text that is safe for a terminal."""

import click


class Terminated(click.exceptions.Abort):
    """The process got SIGTERM, and the command ended cleanly."""


def printable(text: str) -> str:
    """Return text without terminal control characters."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
