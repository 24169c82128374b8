from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest
from aes_client import models
from typer.testing import CliRunner

from cli import kb as command
from cli.connection import Connection
from cli.kb_files import find_files
from tests.unit.cli.service import document, serve


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
            details = [
                {"loc": ["file"], "type": "file_empty", "message": message, "hint": "send a file that isn't empty"}
            ]
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


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKnowledgeApi]:
    service = FakeKnowledgeApi()
    service.pauses = serve(monkeypatch, service)
    return service


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.md", "sub/b.txt", "sub/deep/c.PDF", ".hidden/d.md", ".e.md", "program.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    return tmp_path


def run(*arguments: str) -> SimpleNamespace:
    result = CliRunner().invoke(command.app, list(arguments))
    return SimpleNamespace(code=result.exit_code, out=result.stdout, told=result.stderr)


def test_a_folder_becomes_a_knowledge_base(service: FakeKnowledgeApi, folder: Path) -> None:
    result = run("create", "Towers", str(folder), "--strategy", "sentence", "--chunk-size", "9", "--chunk-overlap", "1")

    assert result.code == 0, result.told
    assert {name for name, _ in service.files.values()} == {"a.md", "b.txt", "c.PDF"}
    assert {content for _, content in service.files.values()} >= {b"text of a.md"}
    base = service.bases["kb0"]
    assert sorted(service.collections["c0"]) == ["f0", "f1", "f2"]
    assert base["collection_ids"] == ["c0"]
    assert base["chunking_strategy"] == {
        "strategy": "sentence",
        "chunk_size": 9,
        "chunk_overlap": 1,
        "split_by": "token",
    }
    assert "3 of 3 documents are searchable." in result.told
    assert "Skipped 1 file of an unsupported type (.bin)." in result.told


def test_what_failed_is_told_with_the_reason_once(service: FakeKnowledgeApi, folder: Path) -> None:
    (folder / "a.md").write_text("poison")
    (folder / "sub" / "b.txt").write_text("")
    refused = folder / "x.exe"
    refused.write_text("MZ")
    result = run("create", "Towers", str(folder), str(refused))

    assert result.code == 1
    assert result.told.count("a.md  It is [damaged]. (parsing, damaged)") == 1
    assert "x.exe" in result.told
    assert "✗ x.exe  x.exe is no document\n" in result.told
    assert result.told.count("✗ b.txt  'b.txt' is empty.\n") == 1
    assert "1 of 4 documents are searchable; 3 failed." in result.told


def test_wrong_settings_are_told_before_anything_is_uploaded(service: FakeKnowledgeApi, folder: Path) -> None:
    result = run("create", "Towers", str(folder), "--strategy", "magic")
    assert (result.code, service.files) == (1, {})
    assert "Error: there is no strategy 'magic'" in result.told


def test_scripts_get_everything_as_json(service: FakeKnowledgeApi, folder: Path) -> None:
    result = run("create", "Towers", str(folder), "--engine", "weaviate", "--embedding", "openai:small", "--json")
    document = json.loads(result.out)
    assert document["knowledge_base"]["status"] == "completed"
    assert (document["refused"], [Path(path).name for path in document["skipped"]]) == ([], ["program.bin"])
    assert service.bases["kb0"]["embedding_config"] == {"provider": "openai", "model": "small"}
    assert service.bases["kb0"]["processing_engine"] == "weaviate"


def test_nothing_to_take_up_is_an_error(service: FakeKnowledgeApi, tmp_path: Path) -> None:
    assert run("create", "Towers", str(tmp_path)).code == 1
    assert run("create", "Towers", str(tmp_path / "missing")).code == 1
    refused = tmp_path / "x.exe"
    refused.write_text("MZ")
    result = run("create", "Towers", str(refused))
    assert (result.code, service.bases) == (1, {})
    assert "No files were accepted" in result.told


def test_an_interrupted_upload_leaves_no_knowledge_base(
    service: FakeKnowledgeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "upload", interrupted)
    result = run("create", "Towers", str(folder))
    assert (result.code, service.bases) == (130, {})


def test_an_ingestion_goes_on_when_nobody_follows_it(
    service: FakeKnowledgeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("aes_client.runners.time.sleep", interrupted)
    result = run("create", "Towers", str(folder))
    assert (result.code, list(service.bases)) == (130, ["kb0"])
    assert "The ingestion continues" in result.told


def test_list_and_search(service: FakeKnowledgeApi, folder: Path) -> None:
    run("create", "Towers", str(folder))
    assert "Towers" in run("list").out
    assert json.loads(run("list", "--json").out)["knowledge_bases"][0]["id"] == "kb0"
    for name in ("Towers", "kb0"):
        result = run("search", name, "white", "tower", "--mode", "keyword", "-k", "3")
        assert result.code == 0, result.told
        assert "tower.md, page 2  0.500" in result.out
        assert "The tower is white." in result.out
    assert service.searches[0] == {"id": "kb0", "query": "white tower", "mode": "keyword", "top_k": 3}


def test_a_name_must_be_of_exactly_one(service: FakeKnowledgeApi, folder: Path) -> None:
    for _ in range(2):
        run("create", "Towers", str(folder))
    assert "2 knowledge bases are named" in run("search", "Towers", "x").told
    assert "There's no knowledge base" in run("search", "Castles", "x").told
    assert "There's no knowledge base ''" in run("search", "", "x").told
    assert run("search", "kb1", "x").code == 0


def test_every_page_of_the_list_is_read(service: FakeKnowledgeApi) -> None:
    for number in range(201):
        service.add(f"base {number}")
    assert len(json.loads(run("list", "--json").out)["knowledge_bases"]) == 201


def test_a_busy_service_is_asked_again_with_the_same_key(
    service: FakeKnowledgeApi, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aes_client.retries.random.uniform", lambda _least, most: most)
    service.busy = 2
    assert run("create", "Towers", str(folder)).code == 0
    assert service.pauses[:2] == [1.25, 1.5]
    assert len(service.bases) == 1
    assert service.keys[0] is not None
    assert len(set(service.keys[:3])) == 1
    service.busy = 100
    refused = run("list")
    assert (refused.code, "busy" in refused.told, "./aes status" in refused.told) == (1, True, True)


def test_an_address_where_nothing_answers_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    pauses = serve(monkeypatch, nowhere)
    refused = run("list")
    assert (refused.code, pauses) == (1, [])
    told = "Error: http://service didn't respond to GET /knowledge-bases/, tried once: connection refused"
    assert told in refused.told
    assert refused.told.count("http://service") == 1


def test_more_files_than_one_call_takes_are_added_in_several(service: FakeKnowledgeApi) -> None:
    files = [models.File.model_validate(document(models.File, id=f"f{number}")) for number in range(2500)]
    with Connection("http://service", "key").client() as client:
        command._collection(client, "c", files)
    assert len(service.collections["c0"]) == 2500
    assert list(map(len, service.added)) == [1000, 1000, 500]


def test_folders_that_link_in_a_circle_are_read_once(folder: Path) -> None:
    (folder / "sub" / "loop").symlink_to(folder)
    files, skipped = find_files([folder, folder / "a.md"])
    assert [file.name for file in files] == ["a.md", "b.txt", "c.PDF"]
    assert [file.name for file in skipped] == ["program.bin"]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    """An archive from elsewhere may hold a link to anything that its reader can read."""
    secret, folder = tmp_path / "secret.txt", tmp_path / "folder"
    secret.write_text("private")
    (folder / "inner").mkdir(parents=True)
    (folder / "own.txt").write_text("own")
    (folder / "inside.md").symlink_to("own.txt")
    (folder / "outside.md").symlink_to(secret)
    (folder / "inner" / "relative.md").symlink_to("../../secret.txt")
    (folder / "chain.md").symlink_to("outside.md")
    (folder / "hidden").symlink_to(tmp_path)
    found, skipped = find_files([folder])
    assert sorted(path.name for path in found) == ["inside.md", "own.txt"]
    assert skipped == []


def test_a_folder_that_is_a_link_itself_was_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own.txt").write_text("own")
    (tmp_path / "here").symlink_to("there")
    assert [path.name for path in find_files([tmp_path / "here"])[0]] == ["own.txt"]
