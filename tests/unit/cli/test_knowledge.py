import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from aes_client import models
from typer.testing import CliRunner

from cli import kb as command
from cli.connection import Connection
from cli.kb_files import find_files
from tests.support.cli_service import document, serve
from tests.support.knowledge_api import FakeKnowledgeApi


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
    assert "No knowledge base" in run("search", "Castles", "x").told
    assert "No knowledge base ''" in run("search", "", "x").told
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
