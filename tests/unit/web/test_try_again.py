"""A message is tried again with the agent that somebody means."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, drawn

CHAT = """
  signIn("agents:read", "sessions:read", "sessions:write", "runtime:execute");
  history.replaceState(null, "", "/studio/chat/s/");
  const message = (role, turn, content) => (
    { id: role + turn, role, turn_id: turn, content, timestamp: `2026-0${turn}` });
  const messages = [
    message("user", "1", "Hello"), message("assistant", "1", "Hi."), message("user", "2", "lost"),
    message("user", "3", "When?"), message("assistant", "3", "At nine."),
  ];
  const agent = { id: "a", name: "Harbour", version_number: "1.0.5", config_hash: given };
  const posted = [];
  serve(async ({ method, path }, signal) => {
    if (path.endsWith("/messages/")) return Response.json({ messages, total: messages.length });
    if (path.endsWith("/artifacts/")) return Response.json({ artifacts: [] });
    if (path === "/agent/") return Response.json([agent]);
    if (path === "/agent/a/") return Response.json(agent);
    if (path === "/sessions/s/") return Response.json({ session_id: "s", agent_id: "a", config_hash: "old" });
    if (method === "POST") return Response.json({ session_id: "n" });
    return Response.json({ sessions: [], total: 0 });
  });
  const served = window.fetch;
  window.fetch = (address, options) => {
    const path = new URL(address, location.href).pathname.replace("/api/v1", "");
    if (options.method === "POST") posted.push([path, JSON.parse(options.body)]);
    return served(address, options);
  };
  show(["s"]);
  const buttons = () => [...box.querySelectorAll("button")].filter((each) => !each.disabled);
  const last = (text) => buttons().findLast((each) => each.textContent === text);
  await until(() => last("Try again from here") && box.textContent.includes("At nine."));
  await until(() => requests.some(({ path }) => path === "/sessions/s/"));
  await elapse(200);
  last("Try again from here").click();
"""
END = """
  await until(() => location.pathname === "/studio/chat/n/");
  return end(posted[0]);
"""
FORKED: list[Any] = ["/sessions/s/fork/", {"before_turn_id": "3"}]
NEWEST = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}


@pytest.mark.parametrize(
    ("config_hash", "choice", "sent"),
    [
        ("old", "", FORKED),
        ("new", "This conversation's version", FORKED),
        ("new", "Newest version", ["/sessions/", {"agent_id": "a", "messages": list(NEWEST)}]),
    ],
)
def test_an_agent_that_has_changed_is_asked_for(run: Run, config_hash: str, choice: str, sent: list[Any]) -> None:
    choose = f'await until(() => last("{choice}")); last("{choice}").click();' if choice else ""
    assert run("studio/pages/chat.js", drawn(CHAT + choose + END), config_hash) == sent
