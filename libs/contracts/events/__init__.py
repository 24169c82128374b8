"""Events, by the service that publishes them."""

from libs.contracts.events import artifacts, gateway, ingestion, registry, runtime, timeline

__all__ = ["artifacts", "gateway", "ingestion", "registry", "runtime", "timeline"]
