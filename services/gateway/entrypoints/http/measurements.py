"""How many requests are answered, how, and how fast."""

from functools import cache
from time import perf_counter
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_REQUESTS: Final = Counter("aes_gateway_requests", "Requests answered.", ["operation", "status"])
_SECONDS: Final = Histogram(
    "aes_gateway_request_seconds",
    "From the request's head to its answer, or to the end of its stream.",
    ["operation"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
OPEN_STREAMS: Final = Gauge("aes_gateway_open_streams", "Event streams that are open.")
CLIENT_GONE: Final = 499


class Measurement:
    """One request, from its construction to ``end``."""

    def __init__(self) -> None:
        self._began = perf_counter()

    def end(self, operation: str, status: int) -> None:
        count, seconds = _series(operation, status)
        count.inc()
        seconds.observe(perf_counter() - self._began)


@cache
def _series(operation: str, status: int) -> tuple[Counter, Histogram]:
    return _REQUESTS.labels(operation, str(status)), _SECONDS.labels(operation)
