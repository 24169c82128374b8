"""Calls the API for `aes kb`."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx

from cli.api import RetryingApi
from deploy.local.errors import StackError

_REFUSED = (413, 415, 422)
_NOT_FOUND = 404
_FILES_AT_ONCE = 1000


class FileRefused(Exception):
    """The service refuses a file, with its reason."""


class KnowledgeApi:
    """Client of the knowledge base API. Raises StackError."""

    def __init__(self, client: httpx.Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._api = RetryingApi(client, sleep)

    def upload(self, name: str, content: Any) -> dict[str, Any]:
        """Uploads a file and returns its record. `content` is an open file, read from its start at each try.

        Raises FileRefused for a file that the service does not take.
        """

        def send() -> httpx.Response:
            content.seek(0)
            return self._api.client.post("/files/", files={"file": (name, content)})

        response = self._api.answer("POST /files/", send)
        if response.status_code in _REFUSED:
            raise FileRefused(response.json()["error"]["message"])
        return self._api.checked("POST /files/", response)

    def create_collection(self, name: str, file_ids: list[str]) -> dict[str, Any]:
        collection = self._api.call("POST", "/collections/", {"name": name})
        for start in range(0, len(file_ids), _FILES_AT_ONCE):
            batch = {"file_ids": file_ids[start : start + _FILES_AT_ONCE]}
            self._api.call("POST", f"/collections/{collection['id']}/files/", batch)
        return collection

    def create(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Creates an empty knowledge base."""
        return self._api.call("POST", "/knowledge-bases/", {**settings, "ingest": False})

    def fill(self, knowledge_base_id: str, collection_id: str) -> None:
        """Sets the knowledge base's files and starts the ingestion."""
        place = f"/knowledge-bases/{knowledge_base_id}/"
        self._api.call("PATCH", place, {"collection_ids": [collection_id]})
        self._api.call("POST", f"{place}ingest/")

    def delete(self, knowledge_base_id: str) -> None:
        self._api.call("DELETE", f"/knowledge-bases/{knowledge_base_id}/")

    def status(self, knowledge_base_id: str) -> dict[str, Any]:
        """Reads the knowledge base."""
        state: dict[str, Any] = self._api.call("GET", f"/knowledge-bases/{knowledge_base_id}/check_status/")
        return dict(state["knowledge_base"])

    def knowledge_bases(self) -> Iterator[dict[str, Any]]:
        return self._api.items("/knowledge-bases/", "knowledge_bases")

    def search(self, knowledge_base_id: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._api.call("POST", f"/knowledge-bases/{knowledge_base_id}/search/", body)

    def find(self, name_or_id: str) -> dict[str, Any]:
        """Finds a knowledge base by id, else by name."""
        place = f"/knowledge-bases/{quote(name_or_id, safe='')}/"
        response = self._api.answer(f"GET {place}", partial(self._api.client.get, place))
        if response.status_code != _NOT_FOUND:
            return self._api.checked(f"GET {place}", response)
        named = [base for base in self.knowledge_bases() if base["name"] == name_or_id]
        if len(named) == 1:
            return named[0]
        if named:
            ids = ", ".join(base["id"] for base in named)
            raise StackError(f"{len(named)} knowledge bases are called {name_or_id!r}.", f"Give one's id: {ids}")
        raise StackError(f"There is no knowledge base {name_or_id!r}.", "See what there is with: ./aes kb list")
