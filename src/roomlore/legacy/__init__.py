"""Migrates stores of other programs into Roomlore, and offers their calls on top of Roomlore."""
