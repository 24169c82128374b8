import hashlib
from typing import Any

import pytest

from libs.blobs import derived_key
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.files import ChangeFiles, DeleteFile, FileDeleted, FilesChanged
from libs.objects import one_piece
from services.ingestion.domain.documents import ParsedDocument
from tests.integration.ingestion.conftest import Ingestion
from tests.support.office_files import doc
from tests.support.registry import identity

STRANGER = identity("user-9", company="company-2")


async def test_an_uploaded_file_can_be_read(ingestion: Ingestion) -> None:
    content = "Größe 🤖\n".encode() * 5000

    file = await ingestion.file("Report Größe.TXT", content)

    assert file == {
        "id": file["id"],
        "name": "Report Größe.TXT",
        "content_type": "text/plain",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "status": "active",
        "tags": [],
        "collection_ids": [],
        "created_at": file["created_at"],
        "updated_at": file["updated_at"],
    }
    assert (await ingestion.get(f"/internal/files/{file['id']}")).json() == file
    download = await ingestion.get(f"/internal/files/{file['id']}/download")
    assert download.content == content
    assert download.headers["content-type"] == "text/plain", "nobody knows yet how it is encoded"
    disposition = download.headers["content-disposition"]
    assert disposition.startswith("attachment; ")
    assert disposition.endswith("filename*=UTF-8''Report%20Gr%C3%B6%C3%9Fe.TXT")
    assert await ingestion.events() == ["file.uploaded"]


async def test_several_files_at_once_are_all_stored(ingestion: Ingestion) -> None:
    response = await ingestion.upload(("a.md", b"# a"), ("b.csv", b"x,y\n1,2\n"), ("a.md", b"# again"))

    body = response.json()
    assert (response.status_code, body["success"]) == (201, True)
    assert [file["name"] for file in body["files"]] == ["a.md", "b.csv", "a.md"]
    page = (await ingestion.get("/internal/files")).json()
    assert (page["total"], page["has_more"]) == (3, False)
    assert {file["id"] for file in page["files"]} == {file["id"] for file in body["files"]}


async def test_names_are_safe_on_every_system(ingestion: Ingestion) -> None:
    given = ["CON.txt", "<script>.html", "..txt", "b/c\\a.txt. ."]
    stored = (await ingestion.upload(*((name, b"<p>text</p>") for name in given))).json()["files"]
    assert [file["name"] for file in stored] == ["_CON.txt", "_script_.html", "file.txt", "a.txt"]


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        ([("a.exe", b"MZ")], 415, ".exe files aren't supported"),
        ([("noextension", b"text")], 415, "no extension"),
        ([("a.pdf", b"\x89PNG\r\n\x1a\n rest")], 415, "looks like a PNG image"),
        ([("a.txt", b"PK\x03\x04 rest")], 415, "ZIP archive"),
        ([("a.docx", doc("Ferry"))], 415, "a legacy or password-protected"),
        ([("a.txt", b"")], 422, "empty"),
        ([("..", b"text")], 422, "no name"),
        ([("a.txt", b"x" * 1_000_001)], 413, "larger than 1000000"),
        ([("a.txt", b"good"), ("b.txt", b"x" * 1_000_001)], 413, "'b.txt'"),
        ([(f"{n}.txt", b"text") for n in range(6)], 422, "per upload is 5"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_what_is_refused_leaves_nothing(ingestion: Ingestion, files: Any, status: int, words: str) -> None:
    response = await ingestion.upload(*files)

    assert response.status_code == status
    assert words in response.json()["error"]["message"]
    assert await ingestion.stored() == []
    assert (await ingestion.get("/internal/files")).json()["total"] == 0
    assert await ingestion.events() == []
    assert {row["state"] for row in await ingestion.rows("SELECT state FROM blobs")} <= {"abandoned"}


async def test_other_bodies_and_fields_are_refused(ingestion: Ingestion) -> None:
    headers = dict(ingestion._headers(None))
    plain = await ingestion.post("/internal/files", {"file": "x"})
    empty = await ingestion.http.post(
        "/internal/files", content=b"--b--\r\n", headers={**headers, "Content-Type": "multipart/form-data; boundary=b"}
    )
    broken = await ingestion.http.post(
        "/internal/files",
        content=b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext',
        headers={**headers, "Content-Type": "multipart/form-data; boundary=b"},
    )
    other = await ingestion.http.post("/internal/files", files={"document": ("a.txt", b"text")}, headers=headers)
    text = await ingestion.http.post("/internal/files", files={"file": (None, b"text")}, headers=headers)

    assert [r.status_code for r in (plain, empty, broken, other, text)] == [415, 422, 400, 422, 422]
    assert other.json()["error"]["details"][0]["loc"] == ["document"]
    assert await ingestion.stored() == []


async def test_files_are_listed_newest_first_and_filtered(ingestion: Ingestion) -> None:
    ids = [(await ingestion.file(name, name.encode()))["id"] for name in ("a_1.txt", "b%.md", "A2.txt")]
    await ingestion.run_command(ChangeFiles(operation="update_tags", file_ids=ids[:2], tags=["x", "y", "x"]))
    await ingestion.run_command(ChangeFiles(operation="change_status", file_ids=ids[1:2], status="inactive"))

    async def listed(**params: Any) -> list[str]:
        page = (await ingestion.get("/internal/files", **params)).json()
        return [file["id"] for file in page["files"]]

    assert await listed() == ids[::-1]
    assert await listed(limit=1, offset=1) == [ids[1]]
    assert await listed(tag="x") == [ids[1], ids[0]]
    assert await listed(status="inactive") == [ids[1]]
    assert await listed(name="a") == [ids[2], ids[0]]
    assert await listed(name="_") == [ids[0]]
    assert await listed(name="%") == [ids[1]]
    assert await listed(collection_id=new_id()) == []
    assert (await ingestion.get(f"/internal/files/{ids[0]}")).json()["tags"] == ["x", "y"]


async def test_a_deleted_file_is_gone_and_another_of_the_same_bytes_stays(ingestion: Ingestion) -> None:
    kept, deleted = await ingestion.file("a.txt", b"same"), await ingestion.file("b.txt", b"same")
    assert (await ingestion.run_command(DeleteFile(file_id=deleted["id"]))).type == FileDeleted.TYPE
    again = await ingestion.run_command(DeleteFile(file_id=deleted["id"]))

    assert CommandRejected.decode(again.payload).error.type == "not_found_error"
    for path in (f"/internal/files/{deleted['id']}", f"/internal/files/{deleted['id']}/download"):
        assert (await ingestion.get(path)).status_code == 404
    assert (await ingestion.get(f"/internal/files/{kept['id']}/download")).content == b"same"


async def test_bulk_operations_succeed_file_by_file(ingestion: Ingestion) -> None:
    ids = [(await ingestion.file(f"{n}.txt", str(n).encode()))["id"] for n in range(3)]
    missing, foreign = new_id(), (await ingestion.file("f.txt", b"f", caller=STRANGER))["id"]

    outcome = await ingestion.run_command(
        ChangeFiles(operation="delete", file_ids=[ids[0], missing, ids[1], ids[0], foreign, "no id"])
    )

    reply = FilesChanged.decode(outcome.payload).reply
    assert (reply.success, reply.processed, reply.failed) == (True, 2, 3)
    assert [(result.file_id, result.status) for result in reply.results] == [
        (ids[0], "success"), (missing, "failed"), (ids[1], "success"), (foreign, "failed"), ("no id", "failed"),
    ]  # fmt: skip
    assert reply.results[1].error.type == "not_found_error"
    page = (await ingestion.get("/internal/files")).json()
    assert [file["id"] for file in page["files"]] == [ids[2]]
    assert (await ingestion.events("file.deleted")) == ["file.deleted", "file.deleted"]
    none = await ingestion.run_command(ChangeFiles(operation="update_tags", file_ids=[missing], tags=[]))
    assert FilesChanged.decode(none.payload).reply.success is False


async def test_the_text_of_a_file_is_read_in_parts_once_it_was_parsed(ingestion: Ingestion) -> None:
    file = await ingestion.file("a.txt", b"whatever was uploaded")
    path = f"/internal/files/{file['id']}/text"
    assert (await ingestion.get(path)).status_code == 409, "nobody has read it yet"

    [row] = await ingestion.rows("SELECT blob_id FROM files WHERE id = %s", file["id"])
    blob_id, document = row["blob_id"], ParsedDocument("Größe: zwölf")
    await ingestion.rows("UPDATE texts SET state = 'parsed' WHERE blob_id = %s", blob_id)
    assert (await ingestion.get(path)).status_code == 409, "the object store has lost it"
    await ingestion.objects.put(derived_key(blob_id, "text", "text/plain"), one_piece(document.to_bytes()))

    whole = {"file_id": file["id"], "text": "Größe: zwölf", "offset": 0, "characters": 12}
    assert (await ingestion.get(path)).json() == whole
    assert (await ingestion.get(path, offset=7, limit=3)).json() == {**whole, "text": "zwö", "offset": 7}
    assert (await ingestion.get(path, offset=99)).json()["text"] == ""
    assert (await ingestion.get(path, STRANGER)).status_code == 404

    failed = "UPDATE texts SET state = 'failed', error_code = 'damaged', error_message = 'It is damaged.'"
    await ingestion.rows(f"{failed} WHERE blob_id = %s", blob_id)
    refused = await ingestion.get(path)
    assert refused.status_code == 409
    assert "It is damaged." in refused.json()["error"]["message"]
