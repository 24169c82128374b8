"""Variables that a service reads, for checks of manifests and Compose."""

import importlib

from libs.service_defaults import ServiceSettings

SERVICES = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline")


def settings_of(service: str) -> type[ServiceSettings]:
    module = importlib.import_module(f"services.{service}.settings")
    return getattr(module, f"{service.capitalize()}Settings")


def variables_of(service: str) -> set[str]:
    settings = settings_of(service)
    prefix = settings.model_config["env_prefix"]
    return {str(field.validation_alias or f"{prefix}{name}".upper()) for name, field in settings.model_fields.items()}
