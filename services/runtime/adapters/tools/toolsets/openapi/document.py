"""Parses OpenAPI documents."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final
from urllib.parse import urljoin

import yaml
from openapi_pydantic.v3 import v3_0, v3_1
from pydantic import BaseModel, ValidationError
from referencing import Registry, Resource, Specification
from referencing.exceptions import Unresolvable

from libs.confined import JobRefused
from libs.contracts.errors import dotted_path
from libs.json_text import without_half_escapes
from services.runtime.domain.conversation import JsonObject

METHODS: Final = ("get", "head", "post", "put", "patch", "delete")
_MODELS: Final[dict[str, ModuleType]] = {"3.0": v3_0, "3.1": v3_1}
_REFERENCES: Final = 20
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Yaml(_LOADER):  # type: ignore[misc, valid-type]
    """A YAML loader limited to JSON's types. Dates remain text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in _LOADER.yaml_implicit_resolvers.items()
    }


def parse_document(text: str) -> Any:
    """Parses JSON or YAML. Raises JobRefused."""
    text = text.removeprefix("\ufeff")
    try:
        text = without_half_escapes(text.encode()).decode()
        if text.lstrip().startswith("{"):
            return json.loads(text)
        return yaml.load(text, Loader=_Yaml)  # noqa: S506
    except json.JSONDecodeError as problem:
        raise JobRefused(f"the document isn't valid JSON: {problem}") from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        position = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise JobRefused(f"the document isn't valid YAML: {problem.problem}{position}") from None
    except (yaml.YAMLError, ValueError, TypeError):
        raise JobRefused("the document is neither JSON nor YAML") from None
    except RecursionError:
        raise JobRefused("the document is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class Document:
    """A document in OpenAPI 3.0 or 3.1. References to other documents are rejected."""

    contents: JsonObject
    version: str
    _resolver: Any = field(repr=False)

    @classmethod
    def of(cls, contents: Any) -> "Document":
        """Creates a document from its parsed contents. Raises JobRefused if it isn't in OpenAPI 3.0 or 3.1."""
        if not isinstance(contents, dict):
            raise JobRefused("the document must be an object with `openapi` and `paths`")
        if "swagger" in contents:
            raise JobRefused("Swagger 2.0 isn't supported; convert the document to OpenAPI 3.0 or 3.1")
        version = str(contents.get("openapi", ""))[:3]
        if version not in _MODELS:
            raise JobRefused(f"`openapi` is {str(contents.get('openapi'))[:40]!r}; use version 3.0 or 3.1")
        if not isinstance(contents.get("paths"), dict):
            raise JobRefused("`paths` is missing or isn't an object")
        # The resource is opaque, because references are JSON pointers and a nested `$id` must have no effect.
        resource: Resource[Any] = Specification.OPAQUE.create_resource(contents)
        registry: Registry[Any] = Registry()
        return cls(contents, version, registry.with_resource("", resource).resolver(""))

    def lookup(self, reference: Any, location: str) -> Any:
        """Returns the target of a reference. Raises JobRefused if the reference is broken or external."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise JobRefused(
                f"{location}: `$ref` {str(reference)[:200]!r} is outside the document;"
                " bundle everything into one document"
            )
        try:
            return self._resolver.lookup(reference).contents
        except (Unresolvable, ValueError, TypeError, KeyError, AttributeError):
            raise JobRefused(f"{location}: the target of `$ref` {reference[:200]!r} doesn't exist") from None

    def resolved(self, value: Any, location: str) -> JsonObject:
        """Returns `value`, or the target if it's a reference. Raises JobRefused."""
        for _ in range(_REFERENCES):
            if not isinstance(value, dict):
                raise JobRefused(f"{location} isn't an object")
            if "$ref" not in value:
                return value
            value = self.lookup(value["$ref"], location)
        raise JobRefused(f"{location}: a chain of references has more than {_REFERENCES} links")

    def parsed(self, kind: str, value: JsonObject, location: str) -> Any:
        """Parses `value` as an OpenAPI object of type `kind`. Raises JobRefused with the first validation error."""
        model: type[BaseModel] = getattr(_MODELS[self.version], kind)
        try:
            return model.model_validate(value)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
            raise JobRefused(f"{location}: {dotted_path(first['loc'])}: {first['msg']}") from None

    def operations(self) -> Iterator["Operation"]:
        """Yields the operations in the document's order."""
        for path, item in self.contents["paths"].items():
            if not str(path).startswith("/"):
                continue
            item = self.resolved(item, f"paths.{path}")
            for method in METHODS:
                if method in item:
                    raw = self.resolved(item[method], f"{method.upper()} {path}")
                    yield Operation(self, method, path, item, raw)


@dataclass(frozen=True, slots=True)
class Target:
    """The server that operations call. `headers` are sent with every request, so they aren't arguments."""

    base_url: str | None = None
    document_url: str | None = None
    headers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation in the document. `item` is the path item, which applies to all operations of the path."""

    document: Document
    method: str
    path: str
    item: JsonObject
    raw: JsonObject

    @property
    def label(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def id(self) -> str | None:
        found = self.raw.get("operationId")
        return found if isinstance(found, str) and found.strip() else None

    @property
    def safe(self) -> bool:
        return self.method in ("get", "head")

    def parsed(self) -> Any:
        """Parses the operation, without its responses and the parts that are parsed separately. Raises JobRefused."""
        kept: JsonObject = {name: self.raw[name] for name in ("summary", "description", "servers") if name in self.raw}
        return self.document.parsed("Operation", {"responses": {}, **kept}, self.label)

    def url(self, servers: Any, target: Target) -> str:
        """Returns the URL, including path placeholders. Raises JobRefused if no server has an absolute URL."""
        return (target.base_url or self._server(servers, target)).rstrip("/") + self.path

    def _server(self, servers: Any, target: Target) -> str:
        for holder in (self.item, self.document.contents):
            listed = holder.get("servers")
            if not servers and isinstance(listed, list) and listed:
                first = listed[0] if isinstance(listed[0], dict) else {}
                servers = [self.document.parsed("Server", first, f"{self.label}: servers.0")]
        url: str = servers[0].url if servers else ""
        for name, variable in ((servers[0].variables if servers else None) or {}).items():
            url = url.replace(f"{{{name}}}", variable.default)
        url = urljoin(target.document_url or "", url)
        if not url.lower().startswith(("http://", "https://")):
            raise JobRefused(
                f"{self.label}: the document doesn't specify a server with an absolute URL; set `base_url`"
            )
        return url
