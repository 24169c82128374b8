"""Scenarios for the project's promises in a cluster; each builds on the installation of the overlay `small`."""

import argparse
from collections.abc import Callable

from tests.cluster.cluster import OVERLAYS, Installation, Say
from tests.cluster.scenarios import demo, disruption, keda, overlays, scaling, small

SMALL = Installation(OVERLAYS / "small", "agent-execution-service-small")
Scenario = Callable[[Installation, Say], None]
SCENARIOS: dict[str, Scenario] = {
    "small": small.fits_a_small_node,
    "demo": demo.through_a_port_forward,
    "scale": scaling.each_service_on_its_own,
    "rollout": disruption.rolling_update,
    "kill": disruption.pods_killed,
    "readiness": disruption.readiness,
    "drain": disruption.node_drained,
    "keda": keda.workers_follow_their_work,
    "overlays": overlays.accepted,
}


def named(text: str) -> str:
    """The name of a scenario, given to a command. Raises ArgumentTypeError."""
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"there is no scenario {text}; there are {', '.join(SCENARIOS)}")
    return text
