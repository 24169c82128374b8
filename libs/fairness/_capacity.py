"""The number of jobs to claim, so that companies take turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Capacity:
    """Jobs that may be claimed: ``free``, and of a company ``each`` less those that it has in ``busy``."""

    free: int
    each: int
    busy: Mapping[str, int] = field(default_factory=dict)

    def parameters(self) -> dict[str, object]:
        """Parameters of a claiming statement."""
        companies, jobs = list(self.busy), list(self.busy.values())
        return {"free": self.free, "each": self.each, "companies": companies, "jobs": jobs}
