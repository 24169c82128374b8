"""Metrics of the gateway beside those that every service tells of its requests."""

from typing import Final

from prometheus_client import Counter, Gauge

from libs.contracts.errors import ErrorKind

REFUSALS: Final = Counter("aes_gateway_refusals_total", "Requests not carried out, by the type of the error.", ["type"])
SHED: Final = Counter(
    "aes_gateway_shed_requests_total",
    "Requests refused because the gateway was busy and their company sent most of them.",
)
WAITING: Final = Gauge("aes_gateway_waiting_requests", "Requests that are being answered, streams included.")
OPEN_STREAMS: Final = Gauge("aes_gateway_open_streams", "Event streams that are open.")
OPEN_SOCKETS: Final = Gauge("aes_gateway_open_websockets", "WebSockets that are open.")
SLOW_READERS: Final = Counter(
    "aes_gateway_slow_readers_total", "Readers of streams that were ended, because they left too much unread."
)

for _kind in ErrorKind:
    # A counter that first shows up with a 1 has never risen for Prometheus.
    REFUSALS.labels(_kind.value)
