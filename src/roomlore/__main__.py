"""python -m roomlore is the command line."""

from roomlore.cli.main import run

if __name__ == "__main__":
    run()
