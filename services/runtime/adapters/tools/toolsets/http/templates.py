"""Request templates with placeholders for a call's arguments."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from pydantic import BaseModel

from services.runtime.adapters.tools.answer_text import is_json
from services.runtime.adapters.tools.toolsets.http_target import TargetRequest
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolFailed

# A doubled placeholder, `{{name}}`, stands for the literal text `{name}`.
_PLACEHOLDER: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_-]*)\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_WHOLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_FORM: Final = "application/x-www-form-urlencoded"
_MISSING: Final = object()
"""Stands for an optional argument that a call omits."""


class RequestTemplate(BaseModel):
    """A request with placeholders for arguments, as the toolset describes it."""

    method: str
    url: str
    headers: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: Any = None

    def placeholders(self) -> set[str]:
        return set(_names([self.url, self.query, self.body]))

    def request(self, arguments: JsonObject) -> TargetRequest:
        """Returns the request for these arguments. Raises ToolFailed if the URL can't be built from them."""
        path, _, own_query = self.url.partition("#")[0].partition("?")
        # Arguments are escaped, so they can't add path segments.
        url = "/".join(_segment(each, arguments) if _PLACEHOLDER.search(each) else each for each in path.split("/"))
        templates = [*parse_qsl(own_query, keep_blank_values=True), *self.query.items()]
        query = [(name, _filled(template, arguments)) for name, template in templates]
        pairs = _pairs((name, value) for name, value in query if value is not None and value is not _MISSING)
        if pairs:
            url += "?" + urlencode(pairs, quote_via=quote, safe="", errors="replace")
        headers = dict(self.headers)
        body = self._body(headers, arguments)
        return TargetRequest(self.method, url, headers, body)

    def _body(self, headers: dict[str, str], arguments: JsonObject) -> bytes | None:
        if self.body is None:
            return None
        given = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
        kind = (given or "").partition(";")[0].strip().lower()
        if isinstance(self.body, str) and not _WHOLE.fullmatch(self.body):
            if given is None:
                headers["Content-Type"] = "text/plain; charset=utf-8"
            written = _json_inner if is_json(kind) else _plain
            return _substituted(self.body, arguments, written).encode(errors="replace")
        value = _filled(self.body, arguments)
        if value is _MISSING:
            return None
        if kind == _FORM and isinstance(value, dict):
            return urlencode(_pairs(value.items()), errors="replace").encode()
        if given is None:
            headers["Content-Type"] = "application/json"
        if not is_json(kind or "application/json") and isinstance(value, str):
            return value.encode(errors="replace")
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def _names(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield from (found[2] for found in _PLACEHOLDER.finditer(template) if found[2])
    elif isinstance(template, dict | list):
        for value in template.values() if isinstance(template, dict) else template:
            yield from _names(value)


def _segment(template: str, arguments: JsonObject) -> str:
    for name in _names(template):
        if name not in arguments:
            raise ToolFailed(f"The call wasn't made: the URL requires the argument {name!r}.")
    text = _substituted(template, arguments, lambda value: quote(_plain(value), safe="", errors="replace"))
    # These segments would change the request's path.
    if text in ("", ".", ".."):
        raise ToolFailed(f"The call wasn't made: {text!r} isn't allowed in a URL's path.")
    return text


def _pairs(fields: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, _plain(each)) for name, value in fields for each in (value if isinstance(value, list) else [value])]


def _filled(template: Any, arguments: JsonObject) -> Any:
    """Replaces placeholders with arguments. Fields and items whose argument is missing are omitted."""
    if isinstance(template, str):
        if whole := _WHOLE.fullmatch(template):
            return arguments.get(whole[1], _MISSING)
        if any(name not in arguments for name in _names(template)):
            return _MISSING
        return _substituted(template, arguments, _plain)
    if isinstance(template, dict):
        filled = {name: _filled(value, arguments) for name, value in template.items()}
        return {name: value for name, value in filled.items() if value is not _MISSING}
    if isinstance(template, list):
        return [value for each in template if (value := _filled(each, arguments)) is not _MISSING]
    return template


def _substituted(template: str, arguments: JsonObject, written: Any) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1]:
            return f"{{{found[1]}}}"
        return str(written(arguments[found[2]])) if found[2] in arguments else ""

    return _PLACEHOLDER.sub(value, template)


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _json_inner(value: Any) -> str:
    """Encodes an argument for a placeholder within a JSON string. A string is escaped, but not quoted."""
    return json.dumps(value, ensure_ascii=False)[1:-1] if isinstance(value, str) else json.dumps(value)
