"""Serves the API reference and the OpenAPI and AsyncAPI documents, without a credential."""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Final

import orjson
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from libs.contracts.errors import NotFound
from services.gateway.entrypoints.door.routes import PREFIX, PublicRoute
from services.gateway.entrypoints.rest.reference import asyncapi, texts

_START_NAME: Final = "start.js"
_MEDIA_TYPES: Final = {
    _START_NAME: "text/javascript; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-32x32.png": "image/png",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'none'"
)
_PAGE_HEADERS: Final = {"Content-Security-Policy": _POLICY}
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


router = APIRouter(prefix=PREFIX, include_in_schema=False, route_class=PublicRoute)


@router.get("/openapi.json")
async def openapi_document(request: Request) -> Response:
    return _static_page(request.app, "openapi", request.app.openapi)


@router.get("/asyncapi.json")
async def asyncapi_document(request: Request) -> Response:
    return _static_page(request.app, "asyncapi", asyncapi.document)


@router.get("/docs/")
async def docs(request: Request) -> Response:
    # If the URL lacks its trailing slash, the page's links need a base.
    begins = "" if request.scope["raw_path"].endswith(b"/") else '<base href="docs/">'
    return Response(
        _PAGE.replace("<head>", f"<head>{begins}"), headers=_PAGE_HEADERS, media_type="text/html; charset=utf-8"
    )


@router.get("/docs/assets/{name}")
async def asset(name: str) -> Response:
    if name not in _MEDIA_TYPES:
        raise NotFound("There is nothing at this path.")
    return _asset(name)


def _static_page(app: FastAPI, name: str, make: Callable[[], dict[str, Any]]) -> Response:
    """Returns a JSON document, which is built on the first request."""
    made: dict[str, bytes] = app.state.static_pages
    if name not in made:
        made[name] = orjson.dumps(make())
    return Response(made[name], headers={"Cache-Control": "no-cache"}, media_type="application/json")


@cache
def _asset(name: str) -> Response:
    packaged = resources.files("fastapi_swagger.resources") / name
    content = _START if name == _START_NAME else packaged.read_bytes()
    return Response(content, headers={"Cache-Control": "public, max-age=86400"}, media_type=_MEDIA_TYPES[name])
