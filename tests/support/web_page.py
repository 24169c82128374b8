"""Somebody's web page, on an origin of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from threading import Thread

_MEDIA_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}


class WebPage:
    """``files`` by name are served as they are at the moment of the request."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        files = self.files

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.split("?")[0].strip("/") or "index.html"
                content = files.get(name, "").encode()
                self.send_response(200 if name in files else 404)
                self.send_header("Content-Type", _MEDIA_TYPES.get(PurePosixPath(name).suffix, "text/plain"))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Requests are nothing to tell about."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]

    @contextmanager
    def serving(self) -> Iterator["WebPage"]:
        thread = Thread(target=self._server.serve_forever, name="web-page", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)
