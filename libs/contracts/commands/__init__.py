"""Commands, by the service that carries them out."""

from libs.contracts.commands import ingestion, registry, runtime

__all__ = ["ingestion", "registry", "runtime"]
