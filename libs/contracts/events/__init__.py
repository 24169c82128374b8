"""Events, by the service that publishes them."""

from libs.contracts.events import gateway, ingestion, registry, runtime

__all__ = ["gateway", "ingestion", "registry", "runtime"]
