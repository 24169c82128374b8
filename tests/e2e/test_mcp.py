"""``/mcp`` of the whole system, by the official client, and by an agent of ours that asks another one."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from deploy.local.ports import choose_free
from tests.e2e.api import Api, unique
from tests.e2e.running_stack import RECEIVERS, RunningStack
from tests.e2e.test_artifacts import upload
from tests.e2e.test_knowledge import knowledge_base  # noqa: F401
from tests.support.mcp_client import mcp_client, text_of
from tests.support.tcp_proxy import TcpProxy

ECHO = "openai:stub-echo"


def answer_of(result: Any) -> dict[str, Any]:
    """The structured answer, which the client has checked against the tool's schema."""
    assert result.is_error is False, text_of(result)
    answer: dict[str, Any] = result.structured_content
    return answer


async def test_agents_are_asked_and_their_conversations_read(api: Api, stack: RunningStack) -> None:
    key = await api.agent("openai:stub-tool-echo", tools=["calculator"])
    told: list[str | None] = []

    async def note(_: float, __: float | None, message: str | None) -> None:
        told.append(message)

    async with mcp_client(stack.base_url, stack.api_key) as client:
        listed = answer_of(await client.call_tool("list_agents"))["agents"]
        [tool] = [each["tool"] for each in listed if each["agent_key"] == key]
        assert tool in [each.name for each in (await client.list_tools()).tools]
        first = answer_of(await client.call_tool(tool, {"message": "What is 6*7?"}, progress_callback=note))
        session = first["session_id"]
        assert first["status"] == "completed"
        assert told[:3] == ["The agent is working.", "Calling calculator.", "calculator has finished."]
        assert told[-1] == first["reply"]
        asked = {"agent_key": key, "message": "And then?", "session_id": session}
        second = answer_of(await client.call_tool("ask_agent", asked))
        assert second["session_id"] == session
        read = answer_of(await client.call_tool("read_session", {"session_id": session}))
        resource = await client.read_resource(f"aes://sessions/{session}")
        newest = (await client.list_resources()).resources[0]
    said = [(message["role"], message["content"]) for message in read["messages"]]
    assert said == [
        ("user", "What is 6*7?"), ("assistant", first["reply"]), ("user", "And then?"), ("assistant", second["reply"]),
    ]  # fmt: skip
    assert json.loads(resource.contents[0].text)["messages"] == read["messages"]
    assert newest.uri.startswith("aes://sessions/")


async def test_knowledge_is_searched_by_id_and_by_name(
    api: Api,
    stack: RunningStack,
    knowledge_base: str,  # noqa: F811
) -> None:
    async with mcp_client(stack.base_url, stack.api_key) as client:
        await client.list_tools()
        bases = answer_of(await client.call_tool("list_knowledge_bases"))["knowledge_bases"]
        [base] = [each for each in bases if each["id"] == knowledge_base]
        assert (base["status"], base["documents"]) == ("completed", 3)
        for named in (base["id"], base["name"]):
            wanted = {"knowledge_base": named, "query": "Who built the white tower?", "top_k": 1}
            found = answer_of(await client.call_tool("search_knowledge", wanted))
            assert [each["file_name"] for each in found["results"]] == ["towers.pdf"]
        unknown = await client.call_tool("search_knowledge", {"knowledge_base": "nothing", "query": "x"})
    assert unknown.is_error is True
    assert "list_knowledge_bases" in text_of(unknown)


async def test_files_of_a_session_are_resources(api: Api, stack: RunningStack) -> None:
    session = await api.session(ECHO)
    notes = await upload(api, session, "notes.md", "# Förde".encode())
    other = await upload(api, session, "old.txt", "Förde".encode("latin-1"))
    large = await upload(api, session, "large.txt", b"x" * (4 * 1024 * 1024 + 1))
    async with mcp_client(stack.base_url, stack.api_key) as client:
        listing = await client.read_resource(f"aes://sessions/{session}/artifacts")
        records = json.loads(listing.contents[0].text)
        assert {each["name"] for each in records} == {"notes.md", "old.txt", "large.txt"}
        uris = {each["artifact_id"]: each["uri"] for each in records}
        text = (await client.read_resource(uris[notes["artifact_id"]])).contents[0]
        assert text.text == "# Förde"
        assert (await client.read_resource(uris[other["artifact_id"]])).contents[0].blob
        with pytest.raises(MCPError, match="Download it from"):
            await client.read_resource(uris[large["artifact_id"]])


async def test_an_agent_asks_another_one_by_its_toolset(api: Api, stack: RunningStack) -> None:
    asked = await api.agent(ECHO)
    port = choose_free()
    stored = await api.http.put("/secrets/own-key/", json={"value": stack.api_key})
    assert stored.status_code in (200, 201), stored.text
    async with TcpProxy(host=RECEIVERS, port=port, target_port=int(stack.base_url.rsplit(":", 1)[1])):
        name = unique("colleagues").lower()
        toolset = {
            "name": name,
            "type": "mcp",
            "url": f"http://{RECEIVERS}:{port}/mcp",
            "headers": {"Authorization": "Bearer ${secret:own-key}"},
            "allowed_tools": ["list_agents", "ask_agent"],
        }
        made = await api.http.post("/toolsets/", json=toolset)
        assert made.status_code == 201, made.text
        assert {tool["name"]: tool["safe_to_repeat"] for tool in made.json()["tools"]} == {
            "list_agents": True,
            "ask_agent": False,
        }
        session = await api.session("openai:stub-ordered", tools=[f"{name}.*"])
        question = unique("question")
        order = {"tool": f"{name}_ask_agent", "arguments": {"agent_key": asked, "message": question}}
        reply = (await api.execute(session, json.dumps(order))).json()
    [call] = reply["response"]["tool_calls"]
    assert call["status"] == "completed", call
    answer = json.loads(call["output"])
    assert (answer["status"], answer["reply"]) == ("completed", f"You said: {question}")
    assert [message["role"] for message in await api.messages(answer["session_id"])] == ["user", "assistant"]
