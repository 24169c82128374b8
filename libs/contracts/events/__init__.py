"""Events, by the service that publishes them."""

from libs.contracts.events import gateway, registry, runtime

__all__ = ["gateway", "registry", "runtime"]
