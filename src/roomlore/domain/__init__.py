"""Plain records of rooms, messages and people. Imports only the standard library."""
