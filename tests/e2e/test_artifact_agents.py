"""Agents and the files of their sessions: given in messages, queried, made."""

import base64
import io
from typing import Any

from python_calamine import CalamineWorkbook

from tests.e2e.api import Api, check_error
from tests.e2e.test_artifacts import processed, upload
from tests.support.office_files import docx, xlsx
from tests.support.scans import png

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
