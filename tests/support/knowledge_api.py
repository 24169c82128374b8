"""The public API's knowledge endpoints in memory, as far as the command line uses them."""

from __future__ import annotations

import re
from typing import Any

import httpx
import orjson
from aes_client import models

from tests.support.cli_service import document


class FakeKnowledgeApi:
    """An ingestion advances by one document per look; documents that hold "poison" fail, files named .exe and
    empty ones are refused.

    `busy`: how many of the next requests are answered with 503.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self.collections: dict[str, list[str]] = {}
        self.bases: dict[str, dict[str, Any]] = {}
        self.searches: list[dict[str, Any]] = []
        self.looks = 0
        self.busy = 0
        self.keys: list[str | None] = []
        self.pauses: list[float] = []
        self.added: list[list[str]] = []

    def add(self, name: str) -> None:
        """Adds an empty knowledge base."""
        self._create({"name": name, "chunking_strategy": {"strategy": "page"}})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if self.busy:
            self.busy -= 1
            self.keys.append(request.headers.get("idempotency-key"))
            return _error(503, "service_unavailable", "busy", {"retry-after": "1"})
        self.keys.append(request.headers.get("idempotency-key"))
        path = request.url.path.removeprefix("/api/v1")
        match request.method, *path.strip("/").split("/"):
            case "POST", "files":
                return self._upload(request)
            case "POST", "collections":
                name = f"c{len(self.collections)}"
                self.collections[name] = []
                return httpx.Response(201, json=document(models.Collection, id=name))
            case "POST", "collections", collection, "files":
                self.added.append(orjson.loads(request.content)["file_ids"])
                self.collections[collection] += self.added[-1]
                return httpx.Response(200, json=document(models.CollectionFilesReply))
            case "POST", "knowledge-bases":
                return self._create(orjson.loads(request.content))
            case "PATCH", "knowledge-bases", base:
                return self._fill(self.bases[base], orjson.loads(request.content)["collection_ids"])
            case "POST", "knowledge-bases", base, "ingest":
                self.bases[base]["status"] = "running"
                return httpx.Response(200, json=self.bases[base])
            case "DELETE", "knowledge-bases", base:
                del self.bases[base]
                return httpx.Response(204)
            case "GET", "knowledge-bases", base if base in self.bases:
                return httpx.Response(200, json=self._look(base))
            case "GET", "knowledge-bases":
                return self._page(request.url.params)
            case "POST", "knowledge-bases", base, "search":
                body = orjson.loads(request.content)
                self.searches.append({"id": base, **body})
                found = [{"passage": "The tower\nis white.", "file_name": "tower.md", "page": 2, "score": 0.5}]
                return httpx.Response(200, json={"query": body["query"], "mode": body["mode"], "results": found})
        return _error(404, "not_found_error", f"no {path}")

    def _upload(self, request: httpx.Request) -> httpx.Response:
        found = re.search(rb'filename="([^"]*)".*?\r\n\r\n(.*)\r\n--', request.content, re.DOTALL)
        assert found
        name, content = found.group(1).decode(), found.group(2)
        if name.endswith(".exe"):
            return _error(415, "unsupported_media_type", f"{name} is no document")
        if not content:
            message = f"'{name}' is empty."
            details = [{"loc": ["file"], "type": "file_empty", "message": message, "hint": "send a file with content"}]
            return _error(422, "validation_error", message, details=details)
        file_id = f"f{len(self.files)}"
        self.files[file_id] = (name, content)
        return httpx.Response(201, json=document(models.File, id=file_id, name=name))

    def _create(self, settings: dict[str, Any]) -> httpx.Response:
        if settings["chunking_strategy"]["strategy"] == "magic":
            return _error(422, "validation_error", "there is no strategy 'magic'")
        base_id = f"kb{len(self.bases)}"
        self.bases[base_id] = document(
            models.KnowledgeBase,
            **{"processing_engine": "pgvector", **settings},
            id=base_id,
            status="pending",
            failed_datasources=[],
            datasource_errors={},
            datasource_snapshots={},
            processing_metadata={"phase": "queued"},
        )
        return httpx.Response(201, json=self.bases[base_id])

    def _fill(self, base: dict[str, Any], collection_ids: list[str]) -> httpx.Response:
        files = [file for collection in collection_ids for file in self.collections[collection]]
        base["collection_ids"], base["total_datasources"] = collection_ids, len(files)
        base["datasource_snapshots"] = {
            file: document(models.DatasourceSnapshot, name=self.files[file][0]) for file in files
        }
        return httpx.Response(200, json=base)

    def _look(self, base_id: str) -> dict[str, Any]:
        self.looks += 1
        base = self.bases[base_id]
        waiting = list(base["datasource_snapshots"])[base["datasource_count"] + len(base["failed_datasources"]) :]
        if waiting:
            base["status"], base["processing_metadata"] = "running", {"phase": "parsing", "processed_chunks": 3}
            if b"poison" in self.files[waiting[0]][1]:
                error = {"code": "damaged", "message": "It is [damaged].", "phase": "parsing"}
                base["datasource_errors"][waiting[0]] = document(models.DatasourceError, **error)
                base["failed_datasources"].append(document(models.Datasource, id=waiting[0]))
            else:
                base["datasource_count"] += 1
        else:
            base["status"] = "failed" if base["failed_datasources"] else "completed"
            base["processing_metadata"] = {}
        return base

    def _page(self, params: httpx.QueryParams) -> httpx.Response:
        offset, limit = int(params.get("offset", 0)), int(params["limit"])
        page = list(self.bases.values())[offset : offset + limit]
        more = len(self.bases) > offset + limit
        return httpx.Response(200, json={"knowledge_bases": page, "total": len(self.bases), "has_more": more})


def _error(
    status: int, kind: str, message: str, headers: dict[str, str] | None = None, **fields: Any
) -> httpx.Response:
    return httpx.Response(status, json={"error": {"type": kind, "message": message, **fields}}, headers=headers)
