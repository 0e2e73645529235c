"""Removes messages, stretches of rooms and persons, everywhere, and says what was removed and what was kept."""
