"""Serves the browser applications: ``/studio/`` and ``/widget.js``."""

from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse, Response

from libs.contracts.errors import NotFound
from libs.service_defaults.errors import install_error_handlers
from libs.service_defaults.observed_requests import SILENT, ObservedRequests
from web.assets import NO_PAGE, PREFIX, Asset, Studio, load

_METHODS: Final = ["GET", "HEAD"]
_FOR_EVER: Final = "public, max-age=31536000, immutable"


_SHARED: Final = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
"""Lets pages on any origin load the chat widget's script and modules."""


async def to_studio(_: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/", 307)


async def widget_script(request: Request) -> Response:
    return _answer(request, load().widget, "no-cache", _SHARED)


class StudioApplication(FastAPI):
    """Serves the same page at every path below ``/studio/`` except assets."""

    def __init__(self) -> None:
        super().__init__(
            title="studio",
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            redirect_slashes=False,
            telemetry=SILENT,
            middleware=[Middleware(ObservedRequests, service="gateway", public=True)],
        )
        install_error_handlers(self)
        self.studio: Studio = load()
        self.router.add_route(PREFIX, to_studio, methods=_METHODS)
        self.router.add_route(f"{PREFIX}/assets/{{version}}/{{path:path}}", self._asset, methods=_METHODS)
        self.router.add_route(f"{PREFIX}/{{address:path}}", self._page, methods=_METHODS)

    async def _page(self, request: Request) -> Response:
        first = request.path_params["address"].split("/")[0]
        # A browser that loads a missing module needs an error instead of the page.
        if first == "assets":
            raise NotFound("There is nothing at this path.")
        page = self.studio.pages.get(first) or self.studio.pages[NO_PAGE]
        response = _answer(request, page, "no-cache", {"Cross-Origin-Resource-Policy": "same-origin"})
        response.headers["Content-Security-Policy"] = self.studio.policy
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response

    async def _asset(self, request: Request) -> Response:
        asset = self.studio.assets.get(request.path_params["path"])
        if asset is None:
            raise NotFound("This file doesn't exist.")
        # During an upgrade, a page may request files from a replica of another release: serve them without caching.
        current = request.path_params["version"] == self.studio.version
        return _answer(request, asset, _FOR_EVER if current else "no-store", _SHARED)


def _answer(request: Request, asset: Asset, caching: str, sharing: Mapping[str, str]) -> Response:
    headers = {
        **sharing,
        "Cache-Control": caching,
        "ETag": asset.etag,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.compressed, headers=headers, media_type=asset.media_type)
    return Response(asset.content, headers=headers, media_type=asset.media_type)
