"""Messages that were not accepted yet: kept, shown after a reload, and one message however often they are sent."""

from typing import Any

import pytest

from tests.unit.web.conftest import Run, drawn

CHAT = """
  signIn();
  const keys = [];
  let answer = () => new Response(null, { status: 204 });
  serve(({ method, path }, signal) => {
    if (path.endsWith("/messages/")) return Response.json({ messages: [], total: 0 });
    if (method === "POST") return answer(path, signal);
    return stream(signal);
  });
  const served = window.fetch;
  window.fetch = (address, options) => {
    if (options.method === "POST") keys.push(options.headers["idempotency-key"]);
    return served(address, options);
  };
  const refused = () => Response.json({ error: { type: "authentication_error", message: "revoked" } }, { status: 401 });
  const accepted = (path, signal) => stream(signal, { location: "/api/v1/runtime/s/turns/t/events/" });
  let conversation;
  const beginning = {};
  const open = async (id) => {
    draw(() => ((conversation = m.useConversation(id, beginning)), null));
    await until(() => conversation.state === "ready");
  };
  const leave = () => render(null, box);
  const shown = () => conversation.turns.map(({ content, status }) => [content, status]);
  const stored = (id) => JSON.parse(sessionStorage.getItem(`aes.studio.unsent.${id}`)) ?? [];
  const kept = (id = "s") => stored(id).map(({ content }) => content);
"""


def talk(run: Run, body: str, given: Any = None) -> Any:
    return run("studio/parts/chat/use_conversation.js", drawn(CHAT + body), given)


@pytest.mark.parametrize("status", [202, 401])
def test_a_message_is_kept_until_it_is_accepted(run: Run, status: int) -> None:
    sending = """
      await open("s");
      let during = null;
      answer = (path, signal) => ((during = kept()), given === 202 ? accepted(path, signal) : refused());
      conversation.say("Mine", []);
      await until(() => conversation.turns[0].id || conversation.turns[0].status === "refused");
      return end([during, kept()]);
    """
    assert talk(run, sending, status) == [["Mine"], [] if status == 202 else ["Mine"]]


def test_a_refused_message_is_there_after_a_reload_with_its_files_and_leaves_the_draft_alone(run: Run) -> None:
    reload = """
      await open("s");
      answer = refused;
      conversation.say("One", [{ artifact: { artifact_id: "a", name: "n.md" } }]);
      conversation.say("Two", []);
      await until(() => conversation.turns.every(({ status }) => status === "refused"));
      sessionStorage.setItem("aes.studio.draft.chat.s", "half writ");
      leave();
      await open("s");
      const again = shown();
      const [{ attachments, blocks, problem }] = conversation.turns;
      answer = accepted;
      conversation.sayAgain(conversation.turns[0]);
      conversation.discard(conversation.turns[0]);
      await until(() => conversation.turns[0].id);
      const files = attachments.map(({ artifact }) => artifact.name);
      const draft = sessionStorage.getItem("aes.studio.draft.chat.s");
      return end({ again, files, blocks: blocks.length, problem, kept: kept(), draft });
    """
    assert talk(run, reload) == {
        "again": [["One", "refused"], ["Two", "refused"]],
        "files": ["n.md"],
        "blocks": 2,
        "problem": "This message may or may not have been delivered.",
        "kept": [],
        "draft": "half writ",
    }


def test_a_message_that_may_have_arrived_is_repeated_with_its_key(run: Run) -> None:
    lost = """
      await open("s");
      answer = (path, signal) => new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
      });
      conversation.say("Mine", []);
      await until(() => keys.length === 1);
      leave();
      await open("s");
      const before = shown();
      answer = accepted;
      const [turn] = conversation.turns;
      conversation.sayAgain(turn);
      conversation.sayAgain(turn);
      await until(() => conversation.turns[0].id === "t");
      return end({ before, sent: keys.length, isSame: keys[0] === keys[1] });
    """
    assert talk(run, lost) == {"before": [["Mine", "refused"]], "sent": 2, "isSame": True}


def test_the_first_message_is_kept_while_its_session_is_made_and_until_that_has_it(run: Run) -> None:
    first = """
      let made, begun = null;
      const sessionOf = () => new Promise((...both) => (made = both));
      Object.assign(beginning, { sessionOf, onBegun: (id) => (begun = id) });
      await open(null);
      conversation.say("First", []);
      const during = kept("new");
      made[1](new Error("away"));
      await until(() => conversation.turns[0].status === "refused");
      conversation.sayAgain(conversation.turns[0]);
      made[0]("s");
      await until(() => begun);
      const between = [kept("new"), kept(), shown()];
      leave();
      answer = accepted;
      await open("s");
      await until(() => conversation.turns[0]?.id);
      return end({ during, between, shown: shown().map(([content]) => content), kept: kept() });
    """
    assert talk(run, first) == {
        "during": ["First"],
        "between": [[], ["First"], []],
        "shown": ["First"],
        "kept": [],
    }


def test_who_signs_out_leaves_no_message_behind(run: Run) -> None:
    leaving = """
      let made;
      Object.assign(beginning, { sessionOf: () => new Promise((resolve) => (made = resolve)), onBegun: () => null });
      await open(null);
      conversation.say("First", []);
      const { signOut } = await import("/api/client.js");
      await signOut();
      made("s");
      await elapse(1_000);
      const left = sessionStorage.length;
      await open("s");
      return end([left, shown()]);
    """
    assert talk(run, leaving) == [0, []]


PAGE = """
  signIn("agents:read", "runtime:execute");
  const said = { turn_id: "t", content: "Said", timestamp: "2026-01-01T00:00:01Z" };
  const messages = ["user", "assistant"].map((role) => ({ id: role, role, ...said }));
  const agents = ["a", "b"].map((id) => ({ id, name: id }));
  // A session that is made is there when the test says so.
  let made;
  const making = new Promise((resolve) => (made = resolve));
  serve(async ({ method, path }, signal) => {
    if (path === "/agent/") return Response.json(agents);
    if (path === "/agent/a/") return Response.json(agents[0]);
    if (path.endsWith("/messages/")) return Response.json({ messages, total: messages.length });
    if (path === "/sessions/s/") return Response.json({ session_id: "s", agent_id: "a" });
    if (method !== "POST") return stream(signal);
    await making;
    return Response.json({ error: { type: "conflict_error", message: "not now" } }, { status: 409 });
  });
  const posts = () => requests.filter(({ method }) => method === "POST").map(({ path }) => path);
"""


def test_a_double_click_makes_one_fork(run: Run) -> None:
    twice = """
      show(["s"]);
      await until(() => button("Try again from here"));
      button("Try again from here").click();
      button("Try again from here").click();
      await until(() => button("Try again from here").disabled);
      made();
      await until(() => !button("Try again from here").disabled);
      return end([posts(), box.querySelector(".talk > .problem").textContent]);
    """
    assert run("studio/pages/chat.js", drawn(PAGE + twice)) == [["/sessions/s/fork/"], "Not now"]


def test_the_first_message_and_its_agent_are_there_after_a_reload(run: Run) -> None:
    reload = """
      show([]);
      await until(() => box.querySelectorAll("option").length === 2);
      const choice = () => box.querySelector("select");
      choice().value = "b";
      choice().dispatchEvent(new Event("change"));
      const field = box.querySelector("textarea");
      field.value = "First";
      field.dispatchEvent(new Event("input"));
      await until(() => !box.querySelector("[aria-label=Send]").disabled);
      box.querySelector("form").requestSubmit();
      await until(() => posts().length === 1);
      render(null, box);
      show([]);
      await until(() => button("Send again") && choice().value === "b");
      made();
      button("Send again").click();
      await until(() => box.querySelector(".turn .problem")?.textContent.includes("Not now"));
      button("Discard").click();
      await until(() => !box.querySelector(".turn"));
      return end([posts(), Object.keys(sessionStorage).filter((name) => name.includes("unsent"))]);
    """
    assert run("studio/pages/chat.js", drawn(PAGE + reload)) == [["/sessions/", "/sessions/"], []]
