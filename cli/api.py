"""Calls the API for client commands and retries while the service is busy."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

from cli.demo.api import explained, unreachable
from deploy.local.errors import StackError
from libs.retry import RetryPolicy, Transient, retry_blocking

_RETRIES = RetryPolicy(first=1.0, longest=30.0, attempts=6)
_BUSY = (429, 503)
_ASKED_WRONGLY = (404, 409, 422)
_PAGE = 200


class _Busy(Transient):
    def __init__(self, response: httpx.Response) -> None:
        after = response.headers.get("retry-after", "")
        super().__init__("the service is busy", min(float(after), _RETRIES.longest) if after.isdigit() else None)
        self.response = response


class RetryingApi:
    """Calls that are repeated for some minutes while the service is busy. Raises StackError."""

    def __init__(self, client: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self.client = client
        self._sleep = sleep

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> dict[str, Any]:
        """Returns the answer's body."""
        # A retry after a 503 must not create a second one.
        headers = {} if method == "GET" else {"Idempotency-Key": str(uuid4())}
        call = f"{method} {path}"
        send = partial(self.client.request, method, path, json=body, headers=headers, params=params or None)
        return self.checked(call, self.answer(call, send))

    def items(self, path: str, name: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yields the items of all pages of a list."""
        offset, more = 0, True
        while more:
            page = self.call("GET", path, limit=_PAGE, offset=offset, **params)
            yield from page[name]
            offset, more = offset + _PAGE, page["has_more"]

    def answer(self, call: str, send: Callable[[], httpx.Response]) -> httpx.Response:
        """Returns the first answer that is none of a busy service, or its last one."""

        def attempt() -> httpx.Response:
            response = send()
            if response.status_code in _BUSY:
                raise _Busy(response)
            return response

        try:
            return retry_blocking(attempt, _RETRIES, on=_Busy, sleep=self._sleep)
        except _Busy as busy:
            return busy.response
        except httpx.HTTPError as problem:
            address = str(self.client.base_url).removesuffix("/api/v1/")
            raise unreachable(call, address, problem) from problem

    def checked(self, call: str, response: httpx.Response) -> dict[str, Any]:
        """Returns the body of a successful answer."""
        if response.status_code in _ASKED_WRONGLY:
            raise StackError(response.json()["error"]["message"])
        if response.status_code >= 400:
            raise explained(call, response.status_code, response.content)
        return dict(response.json()) if response.content else {}
