"""Commands, by the service that carries them out."""

from libs.contracts.commands import artifacts, ingestion, registry, runtime, timeline

__all__ = ["artifacts", "ingestion", "registry", "runtime", "timeline"]
