"""Imports archives of mailing lists and mailboxes."""
