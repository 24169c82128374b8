"""Takes the spans that services send over OTLP/HTTP, as a collector does."""

import gzip
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class SeenSpan:
    """``process`` is the process that did it; ``linked`` are the ids of the traces that it is linked to."""

    service: str
    process: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, object]
    linked: tuple[str, ...]


class OtlpReceiver:
    """Keeps every span, by the id of its trace, and the bytes of all requests."""

    def __init__(self, port: int = 0) -> None:
        self.traces: defaultdict[str, list[SeenSpan]] = defaultdict(list)
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver._take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator["OtlpReceiver"]:
        thread = threading.Thread(target=self._server.serve_forever, name="otlp", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)

    def _take(self, body: bytes) -> None:
        self.bodies.append(body)
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in batch.scope_spans:
                for span in scope.spans:
                    seen = _seen(batch.resource, span)
                    self.traces[seen.trace_id].append(seen)


def _seen(resource: Resource, span: Span) -> SeenSpan:
    about = _values(resource.attributes)
    return SeenSpan(
        service=str(about["service.name"]),
        process=str(about["service.instance.id"]),
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        attributes={**_values(span.attributes), "status": span.status.code, "message": span.status.message},
        linked=tuple(link.trace_id.hex() for link in span.links),
    )


def _values(pairs: "list[KeyValue]") -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}
