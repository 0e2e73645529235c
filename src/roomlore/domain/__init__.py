"""Plain records of rooms, messages and people. This package imports only the standard library."""
