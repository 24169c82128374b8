"""Artifacts of sessions: from the upload to their end, for agents, through crashes, and a lot at once."""

import asyncio
import base64
import hashlib
import io
import re
import zipfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from python_calamine import CalamineWorkbook

from tests.e2e.api import Api, check_error
from tests.e2e.running_stack import RunningStack
from tests.support.office_files import docx, pdf, xlsx
from tests.support.scans import png
from tests.support.waiting import until

MEGABYTE = 1024 * 1024
FARES = xlsx({"Fares": [["port", "price"], ["Aberdeen", 12.5], ["Kirkwall", 30]]})
GUIDE = pdf(["The ferry to Lerwick leaves at 19:00."])


class PeakMemory:
    def __init__(self, pids: Sequence[int]) -> None:
        self._places = [Path(f"/proc/{pid}") for pid in pids]
        if not all((place / "clear_refs").exists() for place in self._places):
            pytest.skip("only Linux notes the peak of a process's memory")
        for place in self._places:
            # Forgets the peak.
            (place / "clear_refs").write_text("5")

    def read(self) -> list[int]:
        """Bytes, in the order of the processes. A process that has ended raises ``FileNotFoundError``."""
        return [_peak(place) for place in self._places]


def _peak(place: Path) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", (place / "status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024


async def upload(api: Api, session: str, name: str, content: Any) -> dict[str, Any]:
    reply = await api.http.post(f"/sessions/{session}/artifacts/", files={"file": (name, content)})
    assert reply.status_code == 201, reply.text
    record: dict[str, Any] = reply.json()
    assert reply.headers["location"] == f"/api/v1/artifacts/{record['artifact_id']}/"
    return record


async def processed(api: Api, artifact: dict[str, Any]) -> dict[str, Any]:
    """Its status once it is not pending any more."""

    async def ended() -> dict[str, Any] | None:
        path = f"/sessions/{artifact['session_id']}/artifacts/{artifact['artifact_id']}/status/"
        reply = await api.persistently("GET", path)
        state: dict[str, Any] = reply.json()
        return None if state.get("processing_status") in (None, "pending") else state

    return await until(ended)


async def test_from_the_upload_to_the_end_of_the_session(
    stack: RunningStack, api: Api, anonymous: httpx.AsyncClient
) -> None:
    session = await api.session()
    place = f"/sessions/{session}/artifacts/"
    fares = await upload(api, session, "fares.xlsx", FARES)
    guide = await upload(api, session, "guide.pdf", GUIDE)
    twin = await upload(api, session, "GUIDE.pdf", GUIDE)

    preview = (await api.http.get(f"{place}{fares['artifact_id']}/preview/")).json()
    assert preview["sheets"][0]["headers"] == ["port", "price"]
    assert [(await processed(api, each))["processing_status"] for each in (fares, guide, twin)] == ["ready"] * 3
    record = (await api.http.get(f"/artifacts/{guide['artifact_id']}/")).json()
    assert record["metadata"]["characters"] > 30
    assert (await anonymous.get(record["url"])).content == GUIDE
    forged = await anonymous.get(record["url"].replace(guide["artifact_id"], fares["artifact_id"]))
    assert (forged.status_code, forged.json()["error"]["type"]) == (401, "authentication_error")
    part = await api.http.get(f"{place}{guide['artifact_id']}/download/", headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"%PDF")
    archive = await api.http.get(f"{place}download-all/")
    assert zipfile.ZipFile(io.BytesIO(archive.content)).namelist() == ["fares.xlsx", "guide.pdf", "GUIDE (2).pdf"]
    for method in ("DELETE", "PATCH", "PUT", "POST"):
        refused = await api.http.request(method, f"/artifacts/{guide['artifact_id']}/")
        assert (refused.status_code, refused.json()["error"]["type"]) == (405, "method_not_allowed")
    copied = await api.http.post(f"{place}{guide['artifact_id']}/copy-to-platform/")
    assert copied.status_code == 409, "it was uploaded"

    assert (await api.http.delete(f"/sessions/{session}/")).status_code == 204

    async def gone() -> bool:
        bytes_left = list((stack.home / "objects" / "artifacts").rglob(f"{guide['artifact_id']}/*"))
        return (await anonymous.get(record["url"])).status_code == 404 and not bytes_left

    await until(gone)
    assert (await api.http.get(f"/artifacts/{guide['artifact_id']}/")).status_code == 404


@pytest.mark.slow(covered_by="integration/artifacts/test_downloads.py::test_every_artifact_of_a_session_in_one_archive")
async def test_a_lot_at_once_takes_little_memory(stack: RunningStack, api: Api) -> None:
    session, size, count = await api.session(), 24 * MEGABYTE, 10
    pids = [stack.pid(part) for part in ("gateway", "artifacts")]
    await upload(api, session, "before.bin.txt", b"x")
    memory = PeakMemory(pids)
    before = memory.read()

    async def one(number: int) -> tuple[str, str]:
        digest = hashlib.sha256()

        async def body() -> AsyncIterator[bytes]:
            yield (
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="%d.png"\r\n\r\n' % number
                + b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10\x00\x00\x00\x10"
            )
            digest.update(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x10\x00\x00\x00\x10")
            piece = bytes([number]) * 65536
            for _ in range(size // len(piece)):
                digest.update(piece)
                yield piece
            yield b"\r\n--b--\r\n"

        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        reply = await api.http.post(f"/sessions/{session}/artifacts/", content=body(), headers=headers)
        assert reply.status_code == 201, reply.text
        return reply.json()["artifact_id"], digest.hexdigest()

    stored = await asyncio.gather(*(one(number) for number in range(count)))
    grown = [high - low for high, low in zip(memory.read(), before, strict=True)]
    assert max(grown) < size * count / 2, [each // MEGABYTE for each in grown]
    for artifact_id, digest in stored:
        found = hashlib.sha256()
        async with api.http.stream("GET", f"/sessions/{session}/artifacts/{artifact_id}/download/") as answer:
            async for piece in answer.aiter_bytes():
                found.update(piece)
        assert found.hexdigest() == digest
    assert (await api.http.delete(f"/sessions/{session}/")).status_code == 204


@pytest.mark.crash("artifacts and ingestion")
async def test_processes_killed_while_they_work_leave_everything_ready(breakable: RunningStack, api: Api) -> None:
    session = await api.session()
    table = b"a,b,c\n" + b"1,2,some text\n" * 150_000
    text = b"The ferry to Lerwick leaves at seven in the evening.\n" * 3_000
    names = [("a.csv", table), ("a.txt", text), ("b.csv", table), ("b.txt", text), ("c.csv", table), ("c.txt", text)]
    uploaded = [await upload(api, session, name, content) for name, content in names]

    breakable.kill("ingestion-streams")
    killed = breakable.kill("artifacts")

    await asyncio.to_thread(breakable.wait_replaced, "artifacts", killed)
    states = [await processed(api, each) for each in uploaded]
    assert [state["processing_status"] for state in states] == ["ready"] * len(uploaded), states


SALES = xlsx(
    {"Sales 2025": [["month", "region", "sold"], ["May", "North", 3], ["May", "South", 4], ["June", "North", 5]]}
)
MINUTES = docx(["Minutes of the meeting.", "Solveig Haugen was elected chair of the board."])
BUILTIN = "builtin:extractive"
SEEING = "openai:stub-echo"


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def file(artifact: dict[str, Any]) -> dict[str, Any]:
    return {"type": "file", "source": {"artifact_id": artifact["artifact_id"]}}


async def test_an_agent_reads_queries_and_makes_files(api: Api) -> None:
    session = await api.session(BUILTIN, tools=["artifact_read", "artifact_search", "table_query", "artifact_create"])
    minutes = await upload(api, session, "minutes.docx", MINUTES)
    sales = await upload(api, session, "sales.xlsx", SALES)
    for artifact in (minutes, sales):
        assert (await processed(api, artifact))["processing_status"] == "ready"

    quoted = (await api.execute(session, [text("Who was elected chair?"), file(minutes)])).json()["response"]
    assert quoted["content"].startswith("Solveig Haugen was elected chair of the board.")
    assert [citation["artifact_id"] for citation in quoted["citations"]] == [minutes["artifact_id"]]

    queried = (await api.execute(session, [text("How much was sold in May?"), file(sales)])).json()["response"]
    assert [call["name"] for call in queried["tool_calls"]] == ["table_query"]
    assert queried["content"].startswith("total sold: 7")

    # The file is known from the message before.
    made = (await api.execute(session, "How much was sold per region? Save it as regions.xlsx.")).json()["response"]
    assert [call["name"] for call in made["tool_calls"]] == ["table_query", "artifact_create"]
    [artifact] = made["artifacts"]
    place = f"/sessions/{session}/artifacts/"
    record = (await api.http.get(f"/artifacts/{artifact['artifact_id']}/")).json()
    assert (record["name"], record["origin"], record["session_id"]) == ("regions.xlsx", "generated", session)
    assert (await api.http.get(place)).json()["total"] == 3
    content = (await api.http.get(f"{place}{artifact['artifact_id']}/download/")).content
    rows = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()
    assert rows == [["region", "total sold"], ["North", 8.0], ["South", 4.0]]
    blocks = (await api.messages(session))[0]["content_blocks"]
    assert blocks[1]["source"] == {"artifact_id": minutes["artifact_id"]}


async def test_an_image_reaches_a_model_that_sees_and_no_other(api: Api) -> None:
    seeing, blind = await api.session(SEEING), await api.session(BUILTIN)
    for session in (seeing, blind):
        picture = await upload(api, session, "scan.png", png())
        for block in (file(picture), {"type": "image", "url": picture["url"]}):
            reply = await api.execute(session, [text("What is this?"), block])
            if session == blind:
                check_error(reply, 422, "validation_error")
            else:
                encoded = base64.b64encode(png()).decode()
                assert f"data:image/png;base64,{encoded}" in reply.json()["response"]["content"]
