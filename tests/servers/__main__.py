"""Builds what the tests need and is not in the user's cache yet: `python -m tests.servers`."""

import sys

from tests.servers.go import PROGRAMS, build_missing

if __name__ == "__main__":
    complete = build_missing(PROGRAMS, lambda text: print(text, flush=True))
    for program in PROGRAMS:
        print(f"{program}: {program.path if program.path.exists() else 'missing'}")
    sys.exit(not complete)
