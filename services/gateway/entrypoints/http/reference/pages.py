"""The public pages: the interactive reference, its assets, and the machine-readable documents."""

from collections.abc import Sequence
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
    """Everything is packaged: the page loads nothing from anywhere else."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._pages = {
            "/openapi.json": _json(openapi.document(operations)),
            "/asyncapi.json": _json(asyncapi.document()),
            "/docs/": Reply(
                200,
                _PAGE.encode(),
                [(b"content-security-policy", _POLICY)],
                b"text/html; charset=utf-8",
            ),
            "/docs/assets/start.js": _asset(_START, b"text/javascript; charset=utf-8"),
        }

    def __call__(self, path: str) -> Reply | None:
        page = self._pages.get(path)
        if page is None and path.startswith("/docs/assets/"):
            page = self._load(path)
        return page

    def _load(self, path: str) -> Reply | None:
        name = path.removeprefix("/docs/assets/")
        media_type = _ASSETS.get(name)
        if media_type is None:
            return None
        content = (resources.files("fastapi_swagger.resources") / name).read_bytes()
        self._pages[path] = _asset(content, media_type)
        return self._pages[path]


def _json(document: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(document), [(b"cache-control", b"no-cache")])


def _asset(content: bytes, media_type: bytes) -> Reply:
    return Reply(200, content, [(b"cache-control", b"public, max-age=86400")], media_type)
