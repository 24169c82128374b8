"""Commands, by the service that carries them out."""

from libs.contracts.commands import artifacts, ingestion, registry, runtime

__all__ = ["artifacts", "ingestion", "registry", "runtime"]
