"""Generates docs/reference/routes.md and a page for each resource from the OpenAPI document."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from services.gateway.entrypoints.rest.application import openapi_document
from tools.reference.examples import Examples, path
from tools.reference.markdown import MARK, json_block, names, pretty, table
from tools.reference.objects import Objects
from tools.reference.references import Schema, name_of, reachable, resolved

_INDEX: Final = "routes.md"
_HEAD: Final = """# Routes

Each resource's page has an example request and response for every route. Paths are relative to the
[base URL](conventions.md). All routes return [errors](errors.md) in the same format.
"""
_RESOURCE_HEAD: Final = """
Paths are relative to the [base URL](../conventions.md), and requests need a [key](../access.md). A `?` marks optional
fields. [Routes](../routes.md) lists the credentials, parameters and errors that operations share.
"""
_BASE: Final = "/api/v1"
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_JSON: Final = "application/json"
_SCOPE: Final = re.compile(r"`[a-z]+:(?:[a-z]+|…)`")
_REQUIRED: Final = re.compile(r"\s*^Requires the scope `[a-z]+:[a-z]+`\.$", re.MULTILINE)
_PART: Final = (
    'Content-Disposition: form-data; name="{field}"; filename="handbook.pdf"\nContent-Type: application/pdf\n\n…'
)


@dataclass(frozen=True)
class _Route:
    method: str
    path: str
    operation: Schema

    @property
    def title(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    @property
    def scopes(self) -> str:
        """The scopes that the operation needs, or the alternatives in its description."""
        [needed] = {tuple(each) for alternative in self._security for each in alternative.values()} or {()}
        if needed:
            return " and ".join(f"`{each}`" for each in needed)
        return " or ".join(dict.fromkeys(_SCOPE.findall(self.operation.get("description", ""))))

    @property
    def credentials(self) -> list[str]:
        return [name for alternative in self._security for name in alternative]

    @property
    def shared_parameters(self) -> list[str]:
        return [name for each in self.operation["parameters"] if (name := name_of(each))]

    @property
    def errors(self) -> list[str]:
        return [status for status in self.operation["responses"] if status >= "4"]

    @property
    def response_headers(self) -> list[list[str]]:
        return [[*each.get("headers", ())] for status, each in self.operation["responses"].items() if status < "4"]

    @property
    def body_types(self) -> list[str]:
        return [*self.operation.get("requestBody", {}).get("content", ())]

    @property
    def _security(self) -> Sequence[Mapping[str, list[str]]]:
        alternatives: Sequence[Mapping[str, list[str]]] = self.operation.get("security", ())
        return alternatives


def pages() -> dict[str, str]:
    """Returns the index page, and a page for each tag."""
    return described_api().pages()


@cache
def described_api() -> "Routes":
    return Routes(openapi_document())


def _given(content: Schema) -> Any:
    """Returns a request's first example, or None."""
    return next((each["value"] for each in content.get("examples", {}).values()), None)


def _page(tag: str) -> str:
    return f"routes/{tag.lower().replace(' ', '-')}.md"


def _listed(tag: Mapping[str, str]) -> tuple[str, str]:
    return f"[{tag['name']}]({_page(tag['name'])})", tag["description"]


class Routes:
    def __init__(self, document: Schema) -> None:
        self._document = document
        self._components: Schema = document["components"]
        self._schemas: Mapping[str, Schema] = self._components["schemas"]
        self._by_tag: dict[str, list[_Route]] = {each["name"]: [] for each in document["tags"]}
        for template, methods in document["paths"].items():
            for method in _METHODS:
                if operation := methods.get(method):
                    route = _Route(method.upper(), template.removeprefix(_BASE), operation)
                    self._by_tag[operation["tags"][0]].append(route)
        self.routes = [route for each in self._by_tag.values() for route in each]
        self._usual_credentials = _usual(each.credentials for each in self.routes)
        self._usual_body_types = _usual(each.body_types for each in self.routes if each.body_types)
        self._usual_parameters = _in_all(each.shared_parameters for each in self.routes)
        self._usual_headers = _in_all(headers for each in self.routes for headers in each.response_headers)
        self._usual_errors = _in_all(each.errors for each in self.routes)

    @cached_property
    def homes(self) -> dict[str, str]:
        """Each object's page, which is the first page that uses the object."""
        shared = {key: each for key, each in self._components.items() if key != "schemas"}
        found = dict.fromkeys(reachable([shared], self._schemas), _INDEX)
        for tag, routes in self._by_tag.items():
            for name in reachable((route.operation for route in routes), self._schemas):
                found.setdefault(name, _page(tag))
        return found

    @cached_property
    def objects(self) -> Objects:
        return Objects(self._schemas, self.homes)

    def pages(self) -> dict[str, str]:
        return {_INDEX: self.index(), **{_page(tag): self._resource(tag) for tag in self._by_tag}}

    def index(self) -> str:
        listed = table(("routes", "purpose"), map(_listed, self._document["tags"]))
        return "\n".join([MARK, _HEAD, listed, self.defaults(), *self._shared(), *self.objects.of_page(_INDEX)])

    def defaults(self) -> str:
        """Returns the text about the defaults, which the resources' pages don't repeat."""
        parameters = names(_named(self._components["parameters"][name]) for name in self._usual_parameters)
        return (
            "An operation accepts these, unless its description lists others:\n\n"
            f"* Credentials: {_either(self._usual_credentials)}\n"
            f"* Bodies: {_either(self._usual_body_types)}\n\n"
            "All operations have these:\n\n"
            f"* Parameters: {parameters}\n"
            f"* Response headers: {names(self._usual_headers)}\n"
            f"* Errors: {', '.join(self._usual_errors)}\n"
        )

    def _shared(self) -> Iterator[str]:
        yield "## Credentials\n"
        schemes = self._components["securitySchemes"].items()
        yield table(
            ("credential", "type", "sent as", "meaning"),
            ((f"`{name}`", f"`{each['type']}`", _sent_as(each), each["description"]) for name, each in schemes),
        )
        yield "## Parameters\n"
        yield table(
            ("parameter", "in", "type", "meaning"),
            (
                (f"`{_named(each)}`", each["in"], self._type(each["schema"], _INDEX), each["description"])
                for each in self._components["parameters"].values()
            ),
        )
        yield "## Response headers\n"
        yield table(
            ("header", "type", "meaning"),
            (
                (f"`{name}`", self._type(each["schema"], _INDEX), each["description"])
                for name, each in self._components["headers"].items()
            ),
        )
        yield "## Errors\n"
        by_form: dict[tuple[str, str], list[str]] = {}
        for status, answer in self._components["responses"].items():
            by_form.setdefault(self._form(answer), []).append(status)
        yield table(("status", "body", "headers"), ((", ".join(each), *form) for form, each in by_form.items()))

    def _form(self, answer: Schema) -> tuple[str, str]:
        bodies = (f"{self._type(each['schema'], _INDEX)} as `{name}`" for name, each in answer["content"].items())
        return ", ".join(bodies), names(answer["headers"])

    def _type(self, schema: Schema, page: str) -> str:
        return self.objects.type(schema, page)

    def _resource(self, tag: str) -> str:
        page, routes = _page(tag), self._by_tag[tag]
        rows = (
            (f"[`{each.title}`](#{each.anchor})", f"{each.operation['summary']}.", each.scopes or "none")
            for each in routes
        )
        listed = table(("route", "what it does", "scopes"), rows)
        described = map(self.operation, routes)
        return "\n".join([MARK, f"# {tag}", _RESOURCE_HEAD, listed, *described, *self.objects.of_page(page)])

    def operation(self, route: _Route) -> str:
        return "\n".join(self._operation(route, _page(route.operation["tags"][0])))

    def _operation(self, route: _Route, page: str) -> Iterator[str]:
        operation = route.operation
        yield f"## {route.title}\n\n{operation['summary']}.\n"
        yield "".join(f"{fact}\n" for fact in self._facts(route, page))
        if text := _REQUIRED.sub("", operation.get("description", "")).strip():
            yield f"{text}\n"
        contents = operation.get("requestBody", {}).get("content", {})
        media_type, content = next(iter(contents.items()), ("", {}))
        body = _given(content)
        yield f"```http\n{self._request(route, media_type, content, body)}\n```\n"
        examples = Examples(self._document, body)
        for status, answer in operation["responses"].items():
            if status not in route.errors:
                yield from self._response(status, answer, examples, page)

    def _facts(self, route: _Route, page: str) -> Iterator[str]:
        yield f"* Operation: `{route.operation['operationId']}`"
        if route.scopes:
            yield f"* Scopes: {route.scopes}"
        if route.credentials != self._usual_credentials:
            yield f"* Credentials: {names(route.credentials) or 'none'}"
        for location, title in (("path", "Path"), ("query", "Query"), ("header", "Headers")):
            yield from self._parameters(route, location, title, page)
        if body := route.operation.get("requestBody"):
            yield self._body(route, body, page)
        if errors := [status for status in route.errors if status not in self._usual_errors]:
            yield f"* Errors: {', '.join(errors)}"

    def _parameters(self, route: _Route, location: str, title: str, page: str) -> Iterator[str]:
        """Yields lists of the shared parameters, and of the operation's own parameters with their types."""
        shared, own = [], []
        for parameter in route.operation["parameters"]:
            described = resolved(parameter, self._document)
            if described["in"] != location or name_of(parameter) in self._usual_parameters:
                continue
            if "$ref" in parameter:
                shared.append(f"`{_named(described)}`")
            elif (kind := self._type(described["schema"], page)) != "string" or location != "path":
                own.append(". ".join([f"  * `{_named(described)}`: {kind}", *_meaning(described)]))
        if shared or own:
            yield f"* {title}: {', '.join(shared)}".rstrip()
        yield from own

    def _body(self, route: _Route, body: Schema, page: str) -> str:
        [described] = {self._type(each["schema"], page) for each in body["content"].values()}
        optional = "" if body.get("required") else " (optional)"
        if route.body_types != self._usual_body_types:
            described = f"{names(route.body_types)} with {described.removeprefix('object with ')}"
        return f"* Body: {described}{optional}"

    def _request(self, route: _Route, media_type: str, content: Schema, body: Any) -> str:
        line = f"{route.method} {_BASE}{path(route.path)}"
        if not media_type:
            return line
        if media_type == _JSON:
            return f"{line}\nContent-Type: {_JSON}\n\n{pretty(body)}"
        field, *_ = content["schema"]["properties"]
        return f"{line}\nContent-Type: {media_type}; boundary=x\n\n--x\n{_PART.format(field=field)}\n--x--"

    def _response(self, status: str, answer: Schema, examples: Examples, page: str) -> Iterator[str]:
        headers = [name for name in answer.get("headers", {}) if name not in self._usual_headers]
        begin = f"Response {status}{f' with a {names(headers)} header' if headers else ''}"
        contents = answer.get("content", {})
        meaning = f"{answer['description'][0].lower()}{answer['description'][1:]}"
        if not contents:
            yield f"{begin}, without a body: {meaning}\n"
        for media_type, content in sorted(contents.items()):
            described = self._type(content["schema"], page)
            if media_type == _JSON:
                yield f"{begin}: {described}.\n\n{json_block(examples.body(content['schema']))}"
            elif "examples" in content:
                text = next(iter(content["examples"].values()))["value"].strip()
                yield f"{begin} as `{media_type}`. Each event: {described}.\n\n```text\n{text}\n```\n"
            else:
                yield f"{begin} as `{media_type}`, {described}: {meaning}\n"


def _usual(lists: Iterable[list[str]]) -> list[str]:
    [(usual, _)] = Counter(map(tuple, lists)).most_common(1)
    return [*usual]


def _in_all(lists: Iterable[list[str]]) -> list[str]:
    first, *others = lists
    return [each for each in first if all(each in other for other in others)]


def _named(parameter: Schema) -> str:
    return f"{parameter['name']}{'' if parameter.get('required') else '?'}"


def _sent_as(scheme: Schema) -> str:
    if scheme["type"] == "http":
        return f"header `Authorization: {scheme['scheme'].capitalize()}`"
    return f"{scheme['in']} `{scheme['name']}`"


def _meaning(parameter: Schema) -> list[str]:
    return [parameter["description"]] if "description" in parameter else []


def _either(listed: list[str]) -> str:
    *others, last = listed
    return f"{names(others)} or `{last}`" if others else f"`{last}`"
