"""Lists that somebody reads while the timeline tells that they have changed."""

import re
from pathlib import Path

from tests.unit.web.conftest import Run, drawn

WEB = Path("web")


def test_every_kind_that_a_list_names_is_followed() -> None:
    kinds = re.search(r"const KINDS = \[(.*)\]", (WEB / "api/follow.js").read_text())
    assert kinds is not None
    texts = [path.read_text() for path in WEB.rglob("*.js") if "vendor" not in path.parts]
    named = {kind for text in texts for names in re.findall(r'changes: "([a-z_ ]+)" }', text) for kind in names.split()}
    assert {"agent", "session", "file", "toolset"} <= named
    assert named == set(re.findall(r'"(\w+)"', kinds[1]))


def test_an_agent_made_elsewhere_is_offered_in_the_chat(run: Run) -> None:
    made = """
      signIn("events:read", "agents:read", "sessions:read");
      const agents = [{ id: "a", name: "Harbour" }];
      serve(({ path }, signal) => {
        if (path === "/events/") return stream(signal);
        return Response.json(path === "/agent/" ? agents : { sessions: [], total: 0 });
      });
      show([]);
      const offered = () => [...box.querySelectorAll("select option")].map((each) => each.textContent);
      await until(() => offered().length === 1 && streams.length === 1);
      agents.push({ id: "b", name: "Ferry" });
      streams[0].write('id: 7\\nevent: agent.created\\ndata: {"type": "agent.created"}\\n\\n');
      await until(() => offered().length === 2);
      const asked = () => requests.filter(({ path }) => path === "/agent/").length;
      const before = asked();
      streams[0].write('id: 8\\nevent: webhook.created\\ndata: {"type": "webhook.created"}\\n\\n');
      await elapse(5_000);
      return end({ offered: offered(), others: asked() - before });
    """
    assert run("studio/pages/chat.js", drawn(made)) == {"offered": ["Harbour", "Ferry"], "others": 0}


def test_many_changes_are_read_together_and_one_stream_serves_all_lists(run: Run) -> None:
    busy = """
      signIn("events:read", "agents:read");
      let count = 0;
      serve(({ path }, signal) => (path === "/events/" ? stream(signal) : Response.json({ count: (count += 1) })));
      const { get } = await import("/api/client.js");
      const List = () => (m.useLoaded((signal) => get("/agent/", {}, { signal }), "", { changes: "agent" }), null);
      render(h("div", {}, h(List), h(List)), box);
      await until(() => count === 2 && streams.length);
      await elapse(1_000);
      for (let at = 0; at < 50; at += 1) streams[0].write('data: {"type": "agent.updated"}\\n\\n');
      await until(() => count >= 4);
      streams[0].write('data: {"type": "agent.updated"}\\n\\n');
      await elapse(2_000);
      const read = count;
      await until(() => count === 6);
      render(null, box);
      await until(() => streams[0].ended);
      return end({ read, streams: streams.length });
    """
    assert run("studio/parts/hooks.js", drawn(busy)) == {"read": 4, "streams": 1}
