"""Follows the timeline over server-sent events, across lost connections and restarts of gateways."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from cli.demo.api import explained, unreachable
from cli.demo.sse import events_in, lines_in
from deploy.local.errors import StackError
from libs.retry import RetryPolicy, Transient, retry_blocking

PATH = "/events/"
# The service sends something every 15 s.
_TIMEOUT = httpx.Timeout(10, read=40)
_RETRIES = RetryPolicy(first=0.5, longest=10.0, attempts=20)
_BUSY = (429, 502, 503, 504)


class _Lost(Transient):
    """The stream ended, or there is none for now."""


class TimelineFollower:
    """Yields the events that fit; after a lost connection it goes on after the last one. Raises StackError.

    ``after``: the position to begin after; without it, with what comes from now on.
    """

    def __init__(
        self,
        client: httpx.Client,
        parameters: dict[str, Any],
        *,
        after: int | None = None,
        on_lost: Callable[[str], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._parameters = parameters
        self._last = None if after is None else str(after)
        self._on_lost = on_lost
        self._sleep = sleep

    def events(self) -> Iterator[dict[str, Any]]:
        try:
            # An address where nothing ever answered is a mistake, not a loss.
            response = self._open()
            while True:
                yield from self._read_to_the_end(response)
                self._sleep(_RETRIES.first)
                response = retry_blocking(self._open, _RETRIES, on=_Lost, sleep=self._sleep)
        except _Lost as lost:
            raise StackError(str(lost), "See: ./aes status") from lost

    def _read_to_the_end(self, response: httpx.Response) -> Iterator[dict[str, Any]]:
        try:
            yield from self._read(response)
        except _Lost as lost:
            self._on_lost(str(lost))
        finally:
            response.close()

    def _open(self) -> httpx.Response:
        headers = {"accept": "text/event-stream"}
        if self._last is not None:
            headers["last-event-id"] = self._last
        request = self._client.build_request("GET", PATH, params=self._parameters, headers=headers, timeout=_TIMEOUT)
        try:
            response = self._client.send(request, stream=True)
            if response.status_code == httpx.codes.OK:
                return response
            response.read()
        except httpx.HTTPError as problem:
            address = str(self._client.base_url).removesuffix("/api/v1/")
            raise _Lost(unreachable(f"GET {PATH}", address, problem).problem) from problem
        response.close()
        refusal = explained(f"GET {PATH}", response.status_code, response.content)
        raise _Lost(refusal.problem) if response.status_code in _BUSY else refusal

    def _read(self, response: httpx.Response) -> Iterator[dict[str, Any]]:
        try:
            for event in events_in(lines_in(response.iter_bytes())):
                if event.id:
                    self._last = event.id
                if event.name == "error":
                    self._end(event.data["error"])
                elif event.data:
                    yield event.data
        except httpx.HTTPError as problem:
            raise _Lost(str(problem) or type(problem).__name__) from problem
        raise _Lost("The service ended the stream.")

    @staticmethod
    def _end(error: dict[str, Any]) -> None:
        if error["type"] == "service_unavailable":
            raise _Lost(error["message"])
        raise StackError(error["message"])
