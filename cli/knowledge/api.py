"""Calls the API for `aes kb` and retries while the service is busy."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from cli.demo.api import explained, unreachable
from deploy.local.errors import StackError
from libs.retry import RetryPolicy, Transient, retry_blocking

_RETRIES = RetryPolicy(first=1.0, longest=30.0, attempts=6)
_BUSY = (429, 503)
_REFUSED = (413, 415, 422)
_NOT_FOUND = 404
_ASKED_WRONGLY = (404, 409, 422)
_PAGE = 200
_FILES_AT_ONCE = 1000


class FileRefused(Exception):
    """The service refuses a file, with its reason."""


class _Busy(Transient):
    def __init__(self, response: httpx.Response) -> None:
        after = response.headers.get("retry-after", "")
        super().__init__("the service is busy", min(float(after), _RETRIES.longest) if after.isdigit() else None)
        self.response = response


class KnowledgeApi:
    """Client of the knowledge base API. Raises StackError."""

    def __init__(self, client: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep

    def upload(self, name: str, content: Any) -> dict[str, Any]:
        """Uploads a file and returns its record. `content` is an open file, read from its start at each try.

        Raises FileRefused for a file that the service does not take.
        """

        def send() -> httpx.Response:
            content.seek(0)
            return self._client.post("/files/", files={"file": (name, content)})

        response = self._answer("POST /files/", send)
        if response.status_code in _REFUSED:
            raise FileRefused(response.json()["error"]["message"])
        return self._checked("POST /files/", response)

    def create_collection(self, name: str, file_ids: list[str]) -> dict[str, Any]:
        collection = self._call("POST", "/collections/", {"name": name})
        for start in range(0, len(file_ids), _FILES_AT_ONCE):
            batch = {"file_ids": file_ids[start : start + _FILES_AT_ONCE]}
            self._call("POST", f"/collections/{collection['id']}/files/", batch)
        return collection

    def create(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Creates an empty knowledge base."""
        return self._call("POST", "/knowledge-bases/", {**settings, "ingest": False})

    def fill(self, knowledge_base_id: str, collection_id: str) -> None:
        """Sets the knowledge base's files and starts the ingestion."""
        place = f"/knowledge-bases/{knowledge_base_id}/"
        self._call("PATCH", place, {"collection_ids": [collection_id]})
        self._call("POST", f"{place}ingest/")

    def delete(self, knowledge_base_id: str) -> None:
        self._call("DELETE", f"/knowledge-bases/{knowledge_base_id}/")

    def status(self, knowledge_base_id: str) -> dict[str, Any]:
        """Reads the knowledge base."""
        state: dict[str, Any] = self._call("GET", f"/knowledge-bases/{knowledge_base_id}/check_status/")
        return dict(state["knowledge_base"])

    def knowledge_bases(self) -> Iterator[dict[str, Any]]:
        offset, more = 0, True
        while more:
            page = self._call("GET", f"/knowledge-bases/?limit={_PAGE}&offset={offset}")
            yield from page["knowledge_bases"]
            offset, more = offset + _PAGE, page["has_more"]

    def search(self, knowledge_base_id: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", f"/knowledge-bases/{knowledge_base_id}/search/", body)

    def find(self, name_or_id: str) -> dict[str, Any]:
        """Finds a knowledge base by id, else by name."""
        place = f"/knowledge-bases/{quote(name_or_id, safe='')}/"
        response = self._answer(f"GET {place}", partial(self._client.get, place))
        if response.status_code != _NOT_FOUND:
            return self._checked(f"GET {place}", response)
        named = [base for base in self.knowledge_bases() if base["name"] == name_or_id]
        if len(named) == 1:
            return named[0]
        if named:
            ids = ", ".join(base["id"] for base in named)
            raise StackError(f"{len(named)} knowledge bases are called {name_or_id!r}.", f"Give one's id: {ids}")
        raise StackError(f"There is no knowledge base {name_or_id!r}.", "See what there is with: ./aes kb list")

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        # A retry after a 503 must not create a second one.
        headers = {} if method == "GET" else {"Idempotency-Key": str(uuid4())}
        call = f"{method} {path}"
        send = partial(self._client.request, method, path, json=body, headers=headers)
        return self._checked(call, self._answer(call, send))

    def _answer(self, call: str, send: Callable[[], httpx.Response]) -> httpx.Response:
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
            address = str(self._client.base_url).removesuffix("/api/v1/")
            raise unreachable(call, address, problem) from problem

    def _checked(self, call: str, response: httpx.Response) -> dict[str, Any]:
        if response.status_code in _ASKED_WRONGLY:
            raise StackError(response.json()["error"]["message"])
        if response.status_code >= 400:
            raise explained(call, response.status_code, response.content)
        return dict(response.json()) if response.content else {}
