"""Runs scenarios in the node's namespaces, one after the other; ends with 1 when a promise did not hold."""

from __future__ import annotations

import argparse
import inspect
import sys
import time

from tests.cluster.cluster import MANIFESTS, Say, ScenarioFailed, ask, attempt
from tests.cluster.scenarios import SCENARIOS, SMALL, named
from tests.rolling_restart.client import Lost


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="*", type=named)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    ask("apply", f"--filename={MANIFESTS}/coredns.yaml")
    ask("--namespace=kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s", seconds=150)
    failed = [name for name in parser.parse_args().scenarios or SCENARIOS if not _held(name, say)]
    say(f"failed: {', '.join(failed)}" if failed else "everything held")
    return 1 if failed else 0


def _held(name: str, say: Say) -> bool:
    scenario = SCENARIOS[name]
    say(f"{name}: {inspect.getdoc(scenario)}")
    try:
        scenario(SMALL, say)
    except (ScenarioFailed, Lost, AssertionError) as failure:
        say(f"FAILED {name}: {failure}")
        for what in (["pods"], ["events", "--sort-by=.lastTimestamp", "--field-selector=type=Warning"]):
            print(attempt("get", *what, "--all-namespaces").stdout[-4000:], flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
