"""Rolling restarts under load, against a stack of its own or the containers of a Compose project.

    python -m tests.rolling_restart --embedded                      a stack of its own, two replicas each
    python -m tests.rolling_restart --embedded --kill --rounds 2    kill -9 instead of restarts
    python -m tests.rolling_restart --embedded --drain --rounds 25  as a node is drained, while two loops take the cores
    python -m tests.rolling_restart --compose "docker compose" --api-key KEY --base-url http://127.0.0.1:8080

Ends with 1 when anything was lost, done twice or answered as it must not be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.rolling_restart.run import Plan, Say, roll
from tests.rolling_restart.targets import REPLICAS, SERVICES, Compose, Target, stack_with_replicas


def main() -> int:
    options = _options()
    plan = Plan(
        services=tuple(options.services.split(",")),
        rounds=options.rounds,
        most_seconds=options.most_minutes * 60,
        talkers=options.talkers,
        pause=options.pause,
        kill="all" if options.kill else "none",
        drain=options.drain,
        busy=2 if options.drain else 0,
        between=0.5 if options.drain else 2.0,
    )
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    with _target(options, say) as target:
        outcome = asyncio.run(roll(target, plan, say))
    print(json.dumps(outcome.summary(), indent=2))
    for problem in outcome.problems:
        say(f"LOST  {problem}")
    for kind, example in outcome.load.client.troubles.examples.items():
        say(f"{kind}: {outcome.load.client.troubles.counts[kind]}, such as {example}")
    say("nothing was lost" if not outcome.problems else f"{len(outcome.problems)} problems")
    return 1 if outcome.problems else 0


@contextmanager
def _target(options: argparse.Namespace, say: Say) -> Iterator[Target]:
    if options.embedded:
        replicas = "2" if options.drain else REPLICAS
        say(f"starting a stack with {replicas}")
        with stack_with_replicas(options.logs, replicas=replicas) as target:
            yield target
    else:
        yield Compose(shlex.split(options.compose), options.api_key, options.base_url, options.kafka)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedded", action="store_true", help="start a stack of its own and stop it at the end")
    parser.add_argument("--compose", help="how Compose is called for the project that runs")
    parser.add_argument("--base-url", action="append", default=[], help="of a gateway; several may be named")
    parser.add_argument("--api-key", default=os.environ.get("AES_API_KEY", ""))
    parser.add_argument("--kafka", help="bootstrap servers, to look at the events themselves")
    parser.add_argument("--services", default=",".join(SERVICES), help="which are restarted, in this order")
    parser.add_argument("--rounds", type=int, default=1, choices=range(1, 51), metavar="1-50")
    parser.add_argument("--most-minutes", type=float, default=math.inf, help="after these no further round begins")
    parser.add_argument("--talkers", type=int, default=8, choices=range(1, 65), metavar="1-64")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two turns of a talker")
    parser.add_argument("--kill", action="store_true", help="kill -9 instead of a graceful restart")
    parser.add_argument("--drain", action="store_true", help="all services at once, as a node's drain, on busy cores")
    parser.add_argument("--logs", help="directory in which the logs of the stack are kept")
    options = parser.parse_args()
    if not options.embedded and not (options.api_key and options.base_url and options.compose):
        parser.error("name --embedded, or an installation: --base-url, --api-key and --compose")
    return options


if __name__ == "__main__":
    sys.exit(main())
