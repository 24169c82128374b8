"""Helps routes and bodies describe themselves in the OpenAPI document."""

from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

ALWAYS: Final = (400, 401, 429, 500, 503)
"""Error statuses that any operation may return."""
Schema = type[BaseModel] | TypeAdapter[Any]


class RequestBody:
    """A dependency that reads the body itself and describes it for the OpenAPI document.

    FastAPI would read the body before authenticating the caller.
    """

    request_body: dict[str, Any]
    body_schema: Schema | None = None


def stream_event(event: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of a server-sent event whose ``data`` contains the model as JSON."""
    content = {"$ref": f"#/components/schemas/{model.__name__}"}
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": content}
    return {
        "type": "object",
        "properties": {"id": {"type": "string"}, "event": event, "data": data},
        "required": ["id", "event", "data"],
    }


def answer(description: str, model: Any = None, *, location: bool = False) -> dict[str, Any]:
    """Describes a successful response. ``location``: whether it contains the created resource's URL."""
    described: dict[str, Any] = {"description": description}
    if model is not None:
        described["model"] = model
    if location:
        described["headers"] = {"Location": {"$ref": "#/components/headers/Location"}}
    return described


def file_answer(description: str) -> dict[str, Any]:
    """Describes a successful response whose body is a file."""
    return {"description": description, "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describes an operation's errors, in addition to those of its dependencies."""
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}
