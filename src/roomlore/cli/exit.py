"""How a command may end, and texts that cannot steer the terminal on which it does."""

import click


class Terminated(click.exceptions.Abort):
    """The process was told to end, and the command ended in order."""


def printable(text: str) -> str:
    """Return text without characters that would steer a terminal."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
