"""Measures the outage when a part is killed (kill -9) under load, on a stack of its own with two of every service.

    python -m tests.outages                            every part once
    python -m tests.outages --part runtime-2 --rounds 3
    python -m tests.outages --logs DIRECTORY           keeps the logs of all processes

Prints a table in Markdown, in seconds: for each kind of operation the slowest one that was under way or begun while the
part was away, repeated by its client until it was answered; and when turns of a killed worker went on elsewhere.
``own delay`` is the longest time for which the measuring process itself was not run.
Ends with 1 when an operation was never answered or answered wrongly.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time

from tests.outages.run import FAULTS, measure
from tests.rolling_restart.targets import stack_with_replicas

# Two of everything. A turn takes so long that some are under way when a part is killed.
_REPLICAS = "2"
_MODEL_SECONDS = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=FAULTS, help="only these")
    parser.add_argument("--rounds", type=int, default=1, choices=range(1, 21), metavar="1-20")
    parser.add_argument("--logs", help="directory in which the logs of the stack are kept")
    options = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        load = os.getloadavg()[0]
        print(f"{time.monotonic() - began:6.1f} s  load {load:4.1f}  {text}", file=sys.stderr, flush=True)

    with stack_with_replicas(options.logs, replicas=_REPLICAS, model_seconds=_MODEL_SECONDS) as target:
        say("the stack is up")
        outcome = asyncio.run(measure(target, options.part or FAULTS, options.rounds, say))
    print(outcome.table())
    loads = [fault.load for fault in outcome.faults]
    print(f"\n{os.cpu_count()} cores, load {min(loads):.1f} to {max(loads):.1f}")
    for loss in outcome.losses:
        say(f"LOST  {loss}")
    return 1 if outcome.losses else 0


if __name__ == "__main__":
    sys.exit(main())
