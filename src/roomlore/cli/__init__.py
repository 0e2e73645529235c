"""The command line: for people on a terminal, JSON for programs; it uses the App and nothing else."""
