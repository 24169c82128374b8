"""Each service by itself, more and fewer of it, while turns run."""

from __future__ import annotations

from tests.cluster.cluster import Installation, Say
from tests.cluster.loaded import under_load

_MANY = 2


def each_service_on_its_own(small: Installation, say: Say) -> None:
    """Each Deployment goes from one replica to two and back, one after the other."""
    deployments = small.deployments()

    def scale() -> None:
        for deployment in deployments:
            up = small.scale(deployment, _MANY)
            down = small.scale(deployment, 1)
            say(f"  {deployment:20} 1 → {_MANY} in {up:4.1f} s, back in {down:4.1f} s")

    say(f"while each was scaled: {under_load(small, scale)}")
