"""The public pages: the interactive reference, its assets, and the machine-readable documents."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from typing import Any, Final

import orjson

from libs.contracts import asyncapi
from services.gateway.entrypoints.http.messages import Reply
from services.gateway.entrypoints.http.operations import Operation
from services.gateway.entrypoints.http.reference import openapi, texts

_ASSETS: Final = {
    "swagger-ui-bundle.js": b"text/javascript; charset=utf-8",
    "swagger-ui.css": b"text/css; charset=utf-8",
    "favicon-32x32.png": b"image/png",
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    b" connect-src 'self'; frame-ancestors 'none'"
)
_PAGE: Final = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{texts.TITLE}: API reference</title>
<link rel="icon" href="assets/favicon-32x32.png">
<link rel="stylesheet" href="assets/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="assets/swagger-ui-bundle.js"></script>
<script src="assets/start.js"></script>
</body>
</html>
"""
_START: Final = b"""SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout"
});
"""


class Pages:
    """Everything is packaged: the page loads nothing from anywhere else. Made when first asked for, then kept."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._made: dict[str, Reply] = {}
        self._makers: dict[str, Callable[[], Reply]] = {
            "/openapi.json": lambda: _json(openapi.document(operations)),
            "/asyncapi.json": lambda: _json(asyncapi.document()),
            "/docs/": _page,
            "/docs/assets/start.js": lambda: _asset(_START, b"text/javascript; charset=utf-8"),
            **{f"/docs/assets/{name}": partial(_packaged, name) for name in _ASSETS},
        }

    def __call__(self, path: str) -> Reply | None:
        """The page at a path below ``/api/v1``, if there is one."""
        if path not in self._made and path in self._makers:
            self._made[path] = self._makers[path]()
        return self._made.get(path)


def _page() -> Reply:
    return Reply(200, _PAGE.encode(), [(b"content-security-policy", _POLICY)], b"text/html; charset=utf-8")


def _packaged(name: str) -> Reply:
    return _asset((resources.files("fastapi_swagger.resources") / name).read_bytes(), _ASSETS[name])


def _json(document: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(document), [(b"cache-control", b"no-cache")])


def _asset(content: bytes, media_type: bytes) -> Reply:
    return Reply(200, content, [(b"cache-control", b"public, max-age=86400")], media_type)
