"""docs/reference/routes.md and a page for each resource, from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from services.gateway.entrypoints.rest.application import openapi_document
from tools.reference.examples import Examples, path
from tools.reference.markdown import MARK, json_block, names, pretty, table

_HEAD: Final = """# Routes

Each route has a request and a response on the page of its resource. Paths follow the [base URL](conventions.md), and
[errors](errors.md) are the same everywhere.
"""
_RESOURCE_HEAD: Final = """
Paths follow the [base URL](../conventions.md), and requests carry a [key](../access.md). A `?` marks optional fields.
[Errors](../errors.md) are the same everywhere.
"""
_BASE: Final = "/api/v1"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_JSON: Final = "application/json"
_SCOPE: Final = re.compile(r"`([a-z]+:[a-z]+)`")
_REQUIRED: Final = re.compile(r"\s*^Requires the scope `[a-z]+:[a-z]+`\.$", re.MULTILINE)
_EVERYWHERE: Final = "X-Correlation-ID"
_PART: Final = (
    'Content-Disposition: form-data; name="{field}"; filename="handbook.pdf"\nContent-Type: application/pdf\n\n…'
)


@dataclass(frozen=True)
class _Route:
    method: str
    path: str
    operation: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    @property
    def scopes(self) -> list[str]:
        return list(dict.fromkeys(_SCOPE.findall(self.operation.get("description", ""))))


def pages() -> dict[str, str]:
    """The index, and the page of each tag."""
    document = openapi_document()
    by_tag: dict[str, list[_Route]] = {each["name"]: [] for each in document["tags"]}
    for template, methods in document["paths"].items():
        for method in _METHODS:
            if operation := methods.get(method):
                route = _Route(method.upper(), template.removeprefix(_BASE), operation)
                by_tag[operation["tags"][0]].append(route)
    return {
        "routes.md": "\n".join([MARK, _HEAD, table(("routes", "what they are for"), map(_listed, document["tags"]))]),
        **{_page(tag): _Resource(document).page(tag, routes) for tag, routes in by_tag.items()},
    }


def response_examples(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """The path, schema and example of each response in JSON."""
    for template, methods in document["paths"].items():
        for operation in methods.values():
            request = operation.get("requestBody", {}).get("content", {}).get(_JSON, {})
            examples = Examples(document["components"]["schemas"], _given(request))
            for status, answer in operation["responses"].items():
                if status.startswith("2") and (content := answer.get("content", {}).get(_JSON)):
                    yield template, content["schema"], examples.body(content["schema"])


def _given(content: Mapping[str, Any]) -> Any:
    """The first example of a request."""
    return next((each["value"] for each in content.get("examples", {}).values()), None)


def _fields(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required", ())
    return [name if name in required else f"{name}?" for name in schema.get("properties", ())]


def _page(tag: str) -> str:
    return f"routes/{tag.lower().replace(' ', '-')}.md"


def _listed(tag: Mapping[str, str]) -> tuple[str, str]:
    return f"[{tag['name']}]({_page(tag['name'])})", tag["description"]


class _Resource:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def page(self, tag: str, routes: list[_Route]) -> str:
        rows = (
            (f"[`{each.title}`](#{each.anchor})", f"{each.operation['summary']}.", names(each.scopes) or "none")
            for each in routes
        )
        listed = table(("route", "what it does", "scopes"), rows)
        return "\n".join([MARK, f"# {tag}", _RESOURCE_HEAD, listed, *("\n".join(self._route(each)) for each in routes)])

    def _route(self, route: _Route) -> Iterator[str]:
        operation = route.operation
        yield f"## {route.title}\n\n{operation['summary']}.\n"
        contents = self._resolved(operation.get("requestBody", {})).get("content", {})
        media_type, content = next(iter(contents.items()), ("", {}))
        if facts := "".join(f"{fact}\n" for fact in self._facts(route, media_type, content)):
            yield facts
        if text := _REQUIRED.sub("", operation.get("description", "")).strip():
            yield f"{text}\n"
        body = _given(content)
        yield f"```http\n{self._request(route, media_type, content, body)}\n```\n"
        examples = Examples(self._document["components"]["schemas"], body)
        for status, answer in operation["responses"].items():
            if status.startswith("2"):
                yield from self._response(status, self._resolved(answer), examples)

    def _facts(self, route: _Route, media_type: str, content: Mapping[str, Any]) -> Iterator[str]:
        if route.scopes:
            yield f"* Scopes: {names(route.scopes)}"
        parameters = [self._resolved(each) for each in route.operation.get("parameters", ())]
        for place, title in (("query", "Query"), ("header", "Headers")):
            if listed := [each["name"] for each in parameters if each["in"] == place and each["name"] != _EVERYWHERE]:
                yield f"* {title}: {names(listed)}"
        if media_type:
            yield f"* Body: {self._body(content['schema'])}"

    def _request(self, route: _Route, media_type: str, content: Mapping[str, Any], body: Any) -> str:
        line = f"{route.method} {_BASE}{path(route.path)}"
        if not media_type:
            return line
        if media_type == _JSON:
            return f"{line}\nContent-Type: {_JSON}\n\n{pretty(body)}"
        field = next(iter(content["schema"]["properties"]))
        return f"{line}\nContent-Type: {media_type}; boundary=x\n\n--x\n{_PART.format(field=field)}\n--x--"

    def _response(self, status: str, answer: Mapping[str, Any], examples: Examples) -> Iterator[str]:
        contents = answer.get("content", {})
        if not contents:
            yield f"Response {status}, without a body.\n"
        for media_type, content in sorted(contents.items()):
            if media_type == _JSON:
                yield f"Response {status}:\n\n{json_block(examples.body(content['schema']))}"
            elif "examples" in content:
                text = next(iter(content["examples"].values()))["value"].strip()
                yield f"Response {status}, as `{media_type}`:\n\n```text\n{text}\n```\n"
            else:
                yield f"Response {status}: {answer['description'][0].lower()}{answer['description'][1:]}\n"

    def _body(self, schema: Mapping[str, Any]) -> str:
        """The fields; of a union, the shared ones, followed by a bullet for each variant."""
        schema = self._resolved(schema)
        options = (self._resolved(each) for each in schema.get("oneOf") or schema.get("anyOf") or [schema])
        variants = [each for each in options if "properties" in each]
        if len(variants) == 1:
            return names(_fields(variants[0]))
        by_variant = [_fields(each) for each in variants]
        shared = [field for field in by_variant[0] if all(field in fields for fields in by_variant)]
        lines = [f"{names(field for field in shared if field != 'type')}, and one of:"]
        for variant, fields in zip(variants, by_variant, strict=True):
            of_type = variant["properties"].get("type", {}).get("const")
            own = names(field for field in fields if field not in shared)
            lines.append(f"  * `type: {of_type}`: {own}" if of_type else f"  * {own}")
        return "\n".join(lines)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            found: Any = self._document
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema
