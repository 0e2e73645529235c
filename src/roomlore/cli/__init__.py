"""The command line: text for people on a terminal, JSON for programs. It uses only the App."""
