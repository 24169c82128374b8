"""Writes `models.py` (answers) and `params.py` (requests) of the client from the contracts of the service.

    python clients/python/generate.py          # from the project's root

Answers become pydantic models that ignore constraints and accept what a newer service adds; request bodies become typed
dictionaries, so that methods take their fields by name.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, RootModel
from pydantic.fields import FieldInfo

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = Path(__file__).parent / "aes_client"
sys.path.insert(0, str(_ROOT))

from libs.contracts.messages import Event, Message, public_name  # noqa: E402
from libs.contracts.models import StrictModel  # noqa: E402
from libs.contracts.timestamps import Timestamp  # noqa: E402

_MODULES = (
    "libs.contracts.errors",
    "libs.contracts.citations",
    "libs.contracts.resources.agents",
    "libs.contracts.resources.messages",
    "libs.contracts.resources.sessions",
    "libs.contracts.resources.turns",
    "libs.contracts.resources.actions",
    "libs.contracts.resources.files",
    "libs.contracts.resources.collections",
    "libs.contracts.resources.knowledge_bases",
    "libs.contracts.resources.artifacts",
    "libs.contracts.resources.toolsets",
    "libs.contracts.resources.secrets",
    "libs.contracts.resources.budgets",
    "libs.contracts.resources.retention",
    "services.gateway.entrypoints.rest.operations_schemas",
    "services.gateway.entrypoints.rest.schemas",
    "libs.contracts.resources.usage",
    "libs.contracts.resources.webhooks",
    "services.gateway.entrypoints.rest.webhook_schemas",
)
# Bases without meaning of their own, and bodies between services.
_LEFT_OUT = frozenset(
    {"TurnEvent", "RunEvent", "ArtifactEvent", "ArtifactIndexEvent", "ArtifactRecord", "ArtifactText"}
    | {"ArtifactPassage", "ArtifactPassages", "ArtifactSearchBody", "ArtifactLinkBody", "ErrorBody", "HistoryMessage"}
    | {"SessionBeginning", "ClientCalls", "SealedSecret"}
)
_DISCRIMINATORS = frozenset({"McpToolsetType", "OpenApiToolsetType", "HttpToolsetType"})
_HEAD = '"""{}\n\nMade by `generate.py` from the contracts of the service: change those.\n"""\n\n'
_MODELS_HEAD = (
    _HEAD.format("Answers of the service.")
    + """from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    \"\"\"An answer. Fields that a newer service has are kept, and are attributes as well.\"\"\"

    # Built when it is first used: programs read a few of these, and start faster without the others.
    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=(), defer_build=True)

"""
)
_PARAMS_HEAD = (
    _HEAD.format("Bodies of requests.")
    + """from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required

"""
)


def source_of_models() -> str:
    """The text of `models.py`."""
    types = _Types(is_answer=True)
    models = {each.__name__: each for each in _contracts() if not issubclass(each, StrictModel)}
    classes = [_model_class(each, models, types) for each in models.values()]
    events = {public_name(each.TYPE): each for each in models.values() if issubclass(each, Event)}
    by_name = "".join(f"    {name!r}: {model.__name__},\n" for name, model in events.items())
    table = f"TURN_EVENTS: dict[str, type[Model]] = {{\n{by_name}}}\n"
    unions = ["Toolset = Annotated[McpToolset | OpenApiToolset | HttpToolset, Field(discriminator='type')]\n"]
    return _formatted(_MODELS_HEAD + "\n".join([types.aliases_source(), *classes, *unions, table]))


def source_of_params() -> str:
    """The text of `params.py`."""
    types = _Types(is_answer=False)
    bodies = [each for each in _contracts() if issubclass(each, StrictModel)]
    classes = [_typed_dictionary(each, types) for each in bodies]
    unions = [
        "ContentBlock = TextBlock | ImageUrlBlock | FileBlock | ImageBlock\n",
        "ToolsetBody = McpToolsetBody | OpenApiToolsetBody | HttpToolsetBody\n",
    ]
    return _formatted(_PARAMS_HEAD + "\n".join([types.aliases_source(), *classes, *unions]))


def _contracts() -> Iterator[type[BaseModel]]:
    """Public classes of the contracts, each after those that it refers to or inherits from."""
    for name in _MODULES:
        module = importlib.import_module(name)
        for model in vars(module).values():
            if _is_contract(model, module):
                yield model


def _is_contract(model: Any, module: ModuleType) -> bool:
    return (
        inspect.isclass(model)
        and issubclass(model, BaseModel)
        and not issubclass(model, RootModel)
        and model.__module__ == module.__name__
        and not model.__name__.startswith("_")
        and not model.__name__.endswith("Page")
        and model.__name__ not in _LEFT_OUT
        and not (model.__doc__ or "").startswith("Internal:")
        and not (issubclass(model, Message) and not public_name(model.TYPE).startswith("turn."))
    )


def _model_class(model: type[BaseModel], known: dict[str, type[BaseModel]], types: _Types) -> str:
    base = next((each for each in model.__mro__[1:] if known.get(each.__name__) is each), None)
    inherited = base.model_fields if base else {}
    hints = get_type_hints(model, include_extras=True)
    fields = [
        f"{name}: {types.of_field(model, name, hints[name])}{_default(field)}"
        for name, field in model.model_fields.items()
        if name not in inherited
    ]
    return _class(model, base.__name__ if base else "Model", fields)


def _typed_dictionary(model: type[BaseModel], types: _Types) -> str:
    hints = get_type_hints(model, include_extras=True)
    fields = []
    for name, field in model.model_fields.items():
        rendered = types.of_field(model, name, hints[name])
        fields.append(f"{name}: Required[{rendered}]" if field.is_required() else f"{name}: {rendered}")
    return _class(model, "TypedDict, total=False", fields)


def _class(model: type[BaseModel], bases: str, fields: Iterable[str]) -> str:
    own = vars(model).get("__doc__")
    text = inspect.cleandoc(own) if own else ""
    doc = [f'"""{text}{chr(10) if chr(10) in text else ""}"""', ""] if own else []
    body = "\n".join([*doc, *fields]) or "pass"
    return f"class {model.__name__}({bases}):\n{textwrap.indent(body, '    ')}\n\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return f" = Field(alias={field.alias!r})" if field.alias else ""
    if field.default_factory is not None:
        raise TypeError("a default that is made cannot be written down")
    return f" = {field.default!r}"


class _Types:
    """Renders annotations, without constraints: those are the service's to check.

    An enumeration of an answer is a text at run time, since a newer service may know more values.
    """

    def __init__(self, *, is_answer: bool) -> None:
        self._is_answer = is_answer
        self._used: dict[str, str] = {}
        self._named: dict[tuple[Any, ...], str] = {}
        self._place = ""

    def aliases_source(self) -> str:
        lines = [f"{name} = {literal}" for name, literal in sorted(self._used.items())]
        if not self._is_answer or not lines:
            return "\n".join([*lines, ""])
        names = [f"{name} = str" for name in sorted(self._used)]
        checked, at_run_time = (textwrap.indent("\n".join(each), "    ") for each in (lines, names))
        return f"if TYPE_CHECKING:\n{checked}\nelse:\n    # A newer service may know more values.\n{at_run_time}\n"

    def of_field(self, model: type[BaseModel], field: str, annotation: Any) -> str:
        self._named = _literals_in(importlib.import_module(model.__module__))
        self._place = model.__name__ + field.title().replace("_", "")
        return self.render(annotation)

    def render(self, annotation: Any) -> str:
        if annotation is Timestamp:
            return "datetime" if self._is_answer else "str"
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.render(arguments[0])
        if origin is Literal:
            return self._enumeration(arguments)
        if origin in (Union, UnionType):
            return " | ".join(dict.fromkeys(map(self.render, arguments)))
        if origin is not None:
            return f"{origin.__name__}[{', '.join(map(self.render, arguments))}]"
        if annotation is NoneType:
            return "None"
        if inspect.isclass(annotation) and issubclass(annotation, Enum):
            return self._alias(annotation.__name__, tuple(each.value for each in annotation))
        if self._is_answer and inspect.isclass(annotation) and issubclass(annotation, StrictModel):
            # A part of a request that is given back, as it was sent.
            return "dict[str, Any]"
        return "Any" if annotation is Any else str(annotation.__name__)

    def _enumeration(self, values: tuple[Any, ...]) -> str:
        if len(values) == 1:
            # The one value of a discriminator, or the only one so far.
            return "str" if self._is_answer and self._place not in _DISCRIMINATORS else _literal(values)
        name = self._named.get(values)
        return self._alias(name or self._place, values) if name or self._is_answer else _literal(values)

    def _alias(self, name: str, values: tuple[Any, ...]) -> str:
        self._used[name] = _literal(values)
        return name


def _literal(values: tuple[Any, ...]) -> str:
    return f"Literal[{', '.join(map(repr, values))}]"


def _literals_in(module: ModuleType) -> dict[tuple[Any, ...], str]:
    """The names of a module's literal types by their values."""
    named = {name: value for name, value in vars(module).items() if get_origin(value) is Literal and name != "Status"}
    return {get_args(value): name for name, value in named.items()}


def _formatted(source: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    name = ["--stdin-filename", str(_PACKAGE / "models.py"), "-"]
    for step in (["check", "--quiet", "--fix-only"], ["format", "--quiet"]):
        source = subprocess.run([*ruff, *step, *name], input=source, text=True, capture_output=True, check=True).stdout
    return source


def main() -> None:
    (_PACKAGE / "models.py").write_text(source_of_models())
    (_PACKAGE / "params.py").write_text(source_of_params())


if __name__ == "__main__":
    main()
