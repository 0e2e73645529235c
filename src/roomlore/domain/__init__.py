"""What rooms, messages and people are, in plain records. Imports nothing but the standard library."""
