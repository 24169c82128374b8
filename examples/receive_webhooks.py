"""Receives webhooks: verifies their signatures, processes each event once, and prints it.

Requires the package `standardwebhooks`. Create a webhook, and start this program with its secret, which is shown only
once:

    WEBHOOK_SECRET=whsec_… python examples/receive_webhooks.py --port 9000

While you rotate the secret, `WEBHOOK_SECRET` can contain the old and the new one, separated by a comma. With `--until
turn.completed`, the program stops after that event.
"""

import argparse
import contextlib
import json
import os
import sys
import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

LARGEST_BODY = 1024 * 1024
# A real receiver stores event IDs in its database, in the same transaction as the event's effects.
REMEMBERED = 100_000


class Inbox:
    """The IDs of processed events."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, event_id: str) -> bool:
        """Returns whether the event is new. The service sends an event again if the response to it was lost."""
        with self._lock:
            if event_id in self._seen:
                return False
            self._seen[event_id] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return True


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], secrets: list[str], until: str) -> None:
        super().__init__(address, Handler)
        self.verifiers = [Webhook(secret) for secret in secrets]
        self.inbox = Inbox()
        self.until = until

    def verified(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """Returns a delivery's content. Raises WebhookVerificationError.

        The delivery must have been signed with one of the secrets within the last five minutes.
        """
        for verifier in self.verifiers:
            try:
                return dict(verifier.verify(body, headers))
            except (WebhookVerificationError, ValueError):
                # Headers without a signature raise a ValueError.
                continue
        raise WebhookVerificationError("The signature doesn't match any secret.")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver
    # A connection is closed after this many seconds of silence.
    timeout = 30

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > LARGEST_BODY:
            self.close_connection = True
            self.answer(413, "The Content-Length is missing or over 1 MB.")
            return
        body = self.rfile.read(int(length))
        try:
            message = self.server.verified(body, dict(self.headers.items()))
        except WebhookVerificationError as problem:
            self.answer(401, str(problem))
            return
        # Respond before processing the event, because the service retries after 15 s without a response.
        self.answer(200, "accepted")
        if self.server.inbox.take(self.headers["webhook-id"]):
            show(message)
        if message["type"] == self.server.until:
            threading.Thread(target=self.server.shutdown).start()

    def answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, so that only events are printed."""


def show(message: dict[str, Any]) -> None:
    event = message["data"]
    print(message["timestamp"], event["position"], message["type"], json.dumps(event["data"])[:200], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--until", default="", help="stop after the first event of this type")
    options = parser.parse_args()
    secrets = [part.strip() for part in os.environ.get("WEBHOOK_SECRET", "").split(",") if part.strip()]
    if not secrets:
        sys.exit("Set WEBHOOK_SECRET to the webhook's secret.")
    try:
        receiver = Receiver((options.host, options.port), secrets, options.until)
    except ValueError:
        sys.exit("WEBHOOK_SECRET isn't a webhook secret: it must start with whsec_")
    except OSError as problem:
        sys.exit(f"Couldn't listen on {options.host}:{options.port}: {problem.strerror}")
    with receiver, contextlib.suppress(KeyboardInterrupt):
        receiver.serve_forever()


if __name__ == "__main__":
    main()
