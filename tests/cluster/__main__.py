"""A real Kubernetes node of this machine, and what the project promises on it.

    python -m tests.cluster                     everything: builds what is missing, then all scenarios
    python -m tests.cluster demo keda           these, after `small`, on which they build
    python -m tests.cluster --keep              leaves the node running
    python -m tests.cluster --again drain       on the node that runs
    python -m tests.cluster --stop              ends a node that was left running

Needs root on Debian 12, Go, and package registries; the first time takes an hour on two cores, since Kubernetes is
built. Ends with 1 when a promise did not hold.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time

from deploy.local.home import PROJECT_ROOT
from tests.cluster import images, node, packages
from tests.cluster.programs import PROGRAMS, build
from tests.cluster.scenarios import SCENARIOS, named

# What a small node has; scenarios that need more give themselves more.
_MEMORY_BYTES = 4 * 10**9


def main() -> int:
    options = parsed(sys.argv[1:])
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    # What was started ends, also when this process is asked to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.stop:
        node.stop(say)
        return 0
    if options.again:
        return _scenarios(options.scenarios)
    packages.unpack()
    for program in PROGRAMS:
        build(program, say)
    archives = images.archives(say)
    try:
        node.start(say, _MEMORY_BYTES)
        for archive in archives:
            node.import_images(archive)
        say("the images are there")
        return _scenarios(options.scenarios)
    finally:
        if not options.keep:
            node.stop(say)


def _scenarios(names: list[str]) -> int:
    command = [sys.executable, "-m", "tests.cluster.inside", *names]
    return subprocess.run(node.inside(command), cwd=PROJECT_ROOT, env=node.environment(), check=False).returncode


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", type=named, help=f"of {', '.join(SCENARIOS)}; else all")
    parser.add_argument("--keep", action="store_true", help="leave the node running at the end")
    parser.add_argument("--again", action="store_true", help="on the node that runs")
    parser.add_argument("--stop", action="store_true", help="end a node that was left running")
    options = parser.parse_args(arguments)
    if options.scenarios and not options.again and "small" not in options.scenarios:
        options.scenarios = ["small", *options.scenarios]
    return options


if __name__ == "__main__":
    sys.exit(main())
