"""The gateway's own metrics. Every service also has metrics for its requests."""

from typing import Final

from prometheus_client import Counter, Gauge

from libs.contracts.errors import ErrorKind

REFUSALS: Final = Counter("aes_gateway_refusals_total", "Rejected requests, by error type.", ["type"])
SHED: Final = Counter(
    "aes_gateway_shed_requests_total",
    "Requests from the busiest company that were rejected while the gateway was overloaded.",
)
WAITING: Final = Gauge("aes_gateway_waiting_requests", "Requests in progress, including streams.")
OPEN_STREAMS: Final = Gauge("aes_gateway_open_streams", "Open event streams.")
OPEN_SOCKETS: Final = Gauge("aes_gateway_open_websockets", "Open WebSockets.")
SLOW_READERS: Final = Counter(
    "aes_gateway_slow_readers_total", "Stream readers disconnected because they fell too far behind."
)

for _kind in ErrorKind:
    # Exports zeros, because Prometheus doesn't see an increase if a counter first appears as 1.
    REFUSALS.labels(_kind.value)
