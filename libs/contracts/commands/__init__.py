"""Commands, by the service that carries them out."""

from libs.contracts.commands import registry, runtime

__all__ = ["registry", "runtime"]
