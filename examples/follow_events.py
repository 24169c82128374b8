"""Follows the events of a company, a session or a request over server-sent events.

Resumes after a lost connection without losing or repeating an event. Requires only Python:

    AES_API_KEY=… python examples/follow_events.py http://127.0.0.1:8080 --correlation-id my-request-1 --after 0

With `--until turn.completed`, the program stops after that event.
"""

import argparse
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

# The service sends a comment after 15 s without an event, so a silent connection is lost.
SILENCE_SECONDS = 40
LOST = (http.client.HTTPException, OSError)
AGAIN = (429, 502, 503, 504)


def follow(base_url: str, api_key: str, query: dict[str, str], after: str | None) -> Iterator[dict[str, Any]]:
    """Yields events indefinitely. Raises HTTPError if the service rejects the request."""
    last_id, pause = after, 0.5
    while True:
        headers = {"x-api-key": api_key, "accept": "text/event-stream"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        request = Request(f"{base_url}/api/v1/events/?{urlencode(query)}", headers=headers)
        try:
            with urlopen(request, timeout=SILENCE_SECONDS) as stream:
                pause = 0.5
                for name, event_id, data in parsed(stream):
                    # A comment with an ID reports the timeline's position if no event matches the filter.
                    last_id = event_id or last_id
                    if name == "error":
                        raise http.client.HTTPException(json.loads(data)["error"]["message"])
                    if data:
                        yield json.loads(data)
        except HTTPError as refusal:
            if refusal.code not in AGAIN:
                raise
            print(f"Rejected, retrying: {refusal}", file=sys.stderr)
        except LOST as problem:
            print(f"Connection lost, reconnecting: {problem}", file=sys.stderr)
        time.sleep(pause)
        pause = min(pause * 2, 10)


def parsed(stream: Any) -> Iterator[tuple[str, str, str]]:
    """Yields the name, ID and data of each event or comment in a stream of server-sent events."""
    name, event_id, data = "", "", []
    for raw in stream:
        line = raw.decode().rstrip("\r\n")
        if not line:
            yield name, event_id, "\n".join(data)
            name, event_id, data = "", "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "id":
            event_id = value
        elif field == "data":
            data.append(value)


def main() -> int:
    parser = argparse.ArgumentParser(description="Follow a company's events.")
    parser.add_argument("base_url", help="address of the service, such as http://127.0.0.1:8080")
    parser.add_argument("--correlation-id", help="filter by correlation ID")
    parser.add_argument("--session-id", help="filter by session ID")
    parser.add_argument("--type", help="filter by type, or by prefix such as turn.*")
    parser.add_argument("--after", help="start after this position; 0 starts with the oldest event (default: now)")
    parser.add_argument("--until", help="stop after the first event of this type")
    options = parser.parse_args()
    wanted = {"correlation_id": options.correlation_id, "session_id": options.session_id, "type": options.type}
    if not options.base_url.startswith(("http://", "https://")):
        parser.error(f"Invalid URL {options.base_url}: it must start with http:// or https://")
    base_url = options.base_url.rstrip("/").removesuffix("/api/v1")
    query = {name: value for name, value in wanted.items() if value}
    try:
        for event in follow(base_url, os.environ.get("AES_API_KEY", ""), query, options.after):
            print(f"{event['position']:>8}  {event['time']}  {event['type']:<28} {event['subject']}", flush=True)
            if event["type"] == options.until:
                return 0
    except HTTPError as refusal:
        print(f"Error: {refusal}: {refusal.read().decode()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
