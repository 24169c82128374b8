"""Generates the tables of settings in docs/reference/configuration.md."""

from collections.abc import Iterable, Iterator
from inspect import get_annotations
from typing import Final

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from deploy.local.caller_settings import COMMAND_VARIABLES, settings_of
from deploy.local.services import DATABASES
from libs.eventing import KafkaSettings
from libs.outbound import OutboundSettings
from libs.quotas import QuotaSettings
from libs.secrets import SecretsSettings
from libs.service_defaults import ServiceSettings
from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS
from tools.reference.command_line import commands, shown_default
from tools.reference.markdown import names, table

_SHARED: Final = (KafkaSettings, ServiceSettings, SecretsSettings, OutboundSettings)


def parts() -> dict[str, str]:
    by_service = {service: settings_of(service) for service in sorted(DATABASES)}
    fields = [field for settings in _SHARED for field in _own_fields(settings)]
    shared = [(name, field) for name, field in fields if field.validation_alias]
    each = [(name, field) for name, field in fields if not field.validation_alias]
    services = names(name.upper() for name in by_service)
    return {
        "all services": _settings(shared),
        "limits of companies": _settings(_own_fields(QuotaSettings)),
        "each service": f"`<SERVICE>` is one of {services}.\n\n{_settings(each, 'AES_<SERVICE>_')}",
        **{
            service: _settings(own, str(settings.model_config["env_prefix"]))
            for service, settings in by_service.items()
            if (own := _own_fields(settings))
        },
        "model providers": table(("provider", "variables", "required"), _providers()),
        "commands": table(("variable", "default", "meaning"), _of_commands()),
    }


def _own_fields(settings: type[BaseSettings]) -> list[tuple[str, FieldInfo]]:
    own = get_annotations(settings)
    return [(name, field) for name, field in settings.model_fields.items() if name in own]


def _settings(fields: Iterable[tuple[str, FieldInfo]], prefix: str = "") -> str:
    rows = []
    for name, field in fields:
        variable = str(field.validation_alias or f"{prefix}{name.upper()}")
        if not field.description:
            raise ValueError(f"{variable} has no description")
        rows.append((f"`{variable}`", _default(field), field.description))
    return table(("variable", "default", "meaning"), rows)


def _default(field: FieldInfo) -> str:
    default = field.get_default()
    if default is PydanticUndefined:
        return "required"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`" if text else "empty"


def _providers() -> Iterator[tuple[str, str, str]]:
    for provider in COMPATIBLE:
        variables = (provider.key_variable, provider.address_variable)
        yield f"`{provider.name}`", names(variables), "either one" if provider.address else "the address"
    for other in OTHERS:
        yield f"`{other.name}`", names(other.variables), "either one" if len(other.variables) > 1 else "the key"


def _of_commands() -> Iterator[tuple[str, str, str]]:
    yield from ((f"`{variable}`", *described) for variable, described in COMMAND_VARIABLES.items())
    options = [each for _, command in commands() for each in command.params if each.envvar]
    by_variable = {each.envvar: each for each in reversed(options)}
    for variable, option in sorted(by_variable.items()):
        yield f"`{variable}`", shown_default(option) or "none", f"`{option.opts[0]}`: {option.help}"
