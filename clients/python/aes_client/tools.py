"""Turns functions into client tools, described by their signatures and docstrings."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import pydantic
from pydantic.json_schema import GenerateJsonSchema

from aes_client.flows import Call
from aes_client.models import RequestedToolCall, RequiredAction

if TYPE_CHECKING:
    from aes_client import models

P = ParamSpec("P")
T = TypeVar("T")
_log = logging.getLogger("aes_client")
_ARGUMENT = re.compile(r"^\s+(\w+)(?:\s*\([^)]*\))?:\s*(.+)$")
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$", re.MULTILINE)


class _Plain(GenerateJsonSchema):
    """Generates schemas without titles, which would only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


class ClientTool(Generic[P, T]):
    """A function that an agent can call. Your program can still call it directly."""

    def __init__(self, function: Callable[P, T], *, name: str | None = None, description: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        text = inspect.cleandoc(function.__doc__ or "")
        self.description = description if description is not None else _SECTION.split(text)[0].strip()
        self._arguments = _arguments_model(function, _described_arguments(text))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)

    @property
    def definition(self) -> models.ClientTool:
        """The tool's definition, as in an agent's ``client_tools``."""
        schema = self._arguments.model_json_schema(schema_generator=_Plain)
        schema.pop("title", None)
        return {"name": self.name, "description": self.description, "parameters": schema}

    def answer(self, call: RequestedToolCall) -> Generator[Any, Any, models.ResolveActionBody]:
        """Calls the function with the model's arguments. Returns the result, or the exception as an error."""
        try:
            checked = self._arguments.model_validate(call.arguments)
        except pydantic.ValidationError as problem:
            return {"error": f"Invalid arguments: {problem}"}
        arguments = {name: getattr(checked, name) for name in type(checked).model_fields if name in call.arguments}
        try:
            output = yield Call(self.function, (), arguments)
            return {"output": pydantic.TypeAdapter(Any).dump_python(output, mode="json")}
        except Exception as problem:
            _log.exception("Client tool %s failed. The model receives the error.", self.name)
            return {"error": f"{type(problem).__name__}: {problem}"}


@overload
def tool(function: Callable[P, T], /) -> ClientTool[P, T]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None
) -> Callable[[Callable[P, T]], ClientTool[P, T]]: ...
def tool(function: Callable[P, T] | None = None, /, *, name: str | None = None, description: str | None = None) -> Any:
    """Turns a function into a tool that agents can call.

    Describe parameters with annotations, with ``Annotated[…, Field(description=…)]``, or in the docstring's ``Args:``
    section. With ``AsyncClient``, tools can be coroutine functions; other functions run in a thread.
    """
    if function is not None:
        return ClientTool(function)
    return lambda decorated: ClientTool(decorated, name=name, description=description)


Tools = Iterable[ClientTool[Any, Any] | Callable[..., Any]]
Approval = Callable[[RequiredAction], Any]
"""Decides whether to allow a call that needs approval. With ``AsyncClient``, it can be a coroutine function."""


@dataclass(frozen=True)
class Answers:
    """The tools and approvals that resolve a turn's actions. ``given`` contains the IDs of resolved actions."""

    tools: dict[str, ClientTool[Any, Any]]
    approve: Approval | None = None
    given: set[str] = field(default_factory=set)

    @classmethod
    def by(cls, tools: Tools, approve: Approval | None = None, *, awaits: bool = True) -> Answers:
        """Creates the object from tool functions and an approval callback.

        Raises ``TypeError`` for a coroutine function if ``awaits`` is false.
        """
        made = [each if isinstance(each, ClientTool) else ClientTool(each) for each in tools]
        for function in (approve, *(each.function for each in made)):
            if not awaits and inspect.iscoroutinefunction(function):
                raise TypeError(f"{function.__name__} is a coroutine function. Use AsyncClient, or a plain function.")
        return cls({each.name: each for each in made}, approve)

    @property
    def definitions(self) -> list[models.ClientTool]:
        return [each.definition for each in self.tools.values()]

    def to(self, action: RequiredAction) -> Generator[Any, Any, models.ResolveActionBody | None]:
        """Returns the answer to an action, or ``None`` if this program can't resolve it."""
        if action.kind == "tool_result" and action.tool_call.name in self.tools:
            return (yield from self.tools[action.tool_call.name].answer(action.tool_call))
        if action.kind == "approval" and self.approve is not None:
            allowed = yield Call(self.approve, (action,))
            return {"decision": "approve" if allowed else "deny"}
        return None


def _arguments_model(function: Callable[..., Any], described: dict[str, str]) -> type[pydantic.BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"{function.__name__}: {parameter.name} can't be passed by name. Declare it as a named parameter."
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        if parameter.name in described:
            default = pydantic.Field(default, description=described[parameter.name])
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    configuration = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())
    return pydantic.create_model(function.__name__, __config__=configuration, **fields)


def _described_arguments(docstring: str) -> dict[str, str]:
    """Returns the parameters' descriptions in the ``Args:`` section."""
    parts: Sequence[str] = _SECTION.split(docstring)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    text = sections.get("Args") or sections.get("Arguments") or sections.get("Parameters") or ""
    return {found[1]: found[2].strip() for found in map(_ARGUMENT.match, text.splitlines()) if found}
