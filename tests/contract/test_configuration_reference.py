"""docs/reference/configuration.md names every setting that a service reads, with its default."""

import importlib
import re
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from libs.service_defaults import ServiceSettings
from services.runtime.adapters.models.known_providers import COMPATIBLE, OTHERS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "configuration.md").read_text()
ROWS = {
    variable: cells[1].strip().strip("`")
    for line in TEXT.splitlines()
    if line.startswith("| `") and len(cells := line.strip("| ").split(" | ")) >= 2
    for variable in re.findall(r"`([A-Z][A-Z_<>]+)`", cells[0])
}


def settings_classes() -> list[type[ServiceSettings]]:
    modules = [
        importlib.import_module(f"services.{file.parent.name}.settings")
        for file in (ROOT / "services").glob("*/settings.py")
    ]
    classes = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ServiceSettings) and value is not ServiceSettings
    ]
    assert len(classes) == len(modules) >= 3
    return classes


def variables() -> list[tuple[str, str, FieldInfo]]:
    """Documented name, the variable itself and its field, of every setting of every service."""
    found = []
    for settings in settings_classes():
        prefix = settings.model_config["env_prefix"]
        for name, field in settings.model_fields.items():
            variable = str(field.validation_alias or f"{prefix}{name}".upper())
            shared = name in ServiceSettings.model_fields and field.validation_alias is None
            found.append((f"AES_<SERVICE>_{name.upper()}" if shared else variable, variable, field))
    return found


@pytest.mark.parametrize(("documented", "variable", "field"), variables())
def test_every_setting_is_documented_with_its_default(documented: str, variable: str, field: FieldInfo) -> None:
    assert documented in ROWS, f"{variable} is not in docs/reference/configuration.md"
    default = field.get_default()
    if default is PydanticUndefined:
        expected = "required"
    elif str(default) == "":
        expected = "empty"
    else:
        expected = str(default).lower() if isinstance(default, bool) else str(default)
    assert ROWS[documented] == expected


def test_every_service_is_named_where_settings_stand_for_all() -> None:
    sentence = next(line for line in TEXT.splitlines() if line.startswith("`<SERVICE>` is"))
    services = {settings.model_config["env_prefix"].split("_")[1] for settings in settings_classes()}
    assert set(re.findall(r"`([A-Z]+)`", sentence)) == services


def test_every_providers_variables_are_documented() -> None:
    needed = {provider.key_variable for provider in COMPATIBLE} | {provider.address_variable for provider in COMPATIBLE}
    needed |= {variable for provider in OTHERS for variable in provider.variables}
    assert needed <= set(re.findall(r"`([A-Z_]+)`", TEXT))
    assert {provider.name for provider in (*COMPATIBLE, *OTHERS)} <= set(re.findall(r"^\| `([a-z]+)` \|", TEXT, re.M))
