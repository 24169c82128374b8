"""A conversation is the same whichever way its parts arrive."""

from typing import Any

from tests.unit.web.conftest import Run

Event = tuple[str, dict[str, Any]]
SHOWN = """(() => {
  const turn = new m.Turn("t");
  const last = given.map(([type, data]) => turn.take(type, data)).at(-1);
  const { status, text, problem, citations } = turn;
  const calls = turn.calls.map(({ name, status, output }) => [name, status, output]);
  return { status, text, problem, citations, last, calls };
})()"""


def shown(run: Run, *events: Event) -> dict[str, Any]:
    return run("chat/conversation.js", SHOWN, [list(each) for each in events])  # type: ignore[no-any-return]


def delta(text: str, offset: int, *, attempt: int = 1, step: int = 1) -> Event:
    return "turn.output_text.delta", {"attempt": attempt, "step": step, "offset": offset, "text": text}


def started(attempt: int = 1) -> Event:
    return "turn.started", {"attempt": attempt}


def completed(content: str, **fields: Any) -> Event:
    reply = {"content": content, "tool_calls": [], "citations": [], "artifacts": [], **fields}
    return "turn.completed", {"response": reply, "usage": {"input_tokens": 1, "output_tokens": 1}}


def test_text_is_put_together_by_its_place(run: Run) -> None:
    found = shown(run, started(), delta("Hel", 0), delta("lo ", 3), delta("lo world", 3), delta("Hel", 0))
    assert (found["text"], found["status"]) == ("Hello world", "running")


def test_offsets_count_characters_of_unicode(run: Run) -> None:
    assert shown(run, started(), delta("⛴️ 🇳🇴", 0), delta("!", 5))["text"] == "⛴️ 🇳🇴!"


def test_text_of_a_lost_attempt_is_dropped(run: Run) -> None:
    restarted: Event = ("turn.restarted", {"attempt": 2, "resumed_from_step": 0})
    found = shown(run, started(), delta("Wrong", 0), restarted, delta("late", 5), delta("Right", 0, attempt=2))
    assert found["text"] == "Right"


def test_the_reply_is_what_counts_in_the_end(run: Run) -> None:
    found = shown(run, started(), delta("Half of", 0), completed("All of it"))
    assert (found["text"], found["status"], found["last"]) == ("All of it", "completed", True)


def test_a_call_waits_is_allowed_and_ends(run: Run) -> None:
    call = {"id": "c", "name": "refund", "arguments": {"order": 1}}
    required: Event = (
        "turn.action_required",
        {"step": 1, "action": {"action_id": "a", "kind": "approval", "tool_call": call}},
    )
    resolved: Event = ("turn.action_resolved", {"action_id": "a", "decision": "approve"})
    done: Event = ("turn.tool_call.completed", {"step": 1, "call_id": "c", "name": "refund", "output": "ok"})
    waiting = shown(run, started(), required)
    assert (waiting["status"], waiting["calls"]) == ("waiting", [["refund", "waiting", None]])
    ended = shown(run, started(), required, resolved, done)
    assert (ended["status"], ended["calls"]) == ("running", [["refund", "completed", "ok"]])


def test_a_visitor_learns_the_name_of_a_call_when_its_page_is_to_make_it(run: Run) -> None:
    call: Event = ("turn.tool_call.started", {"step": 1, "call_id": "c", "name": "tool", "arguments": {}})
    own = {"id": "c", "name": "order_status", "arguments": {"order": 1}}
    action = {"action_id": "a", "kind": "tool_result", "tool_call": own}
    found = shown(run, started(), call, ("turn.action_required", {"step": 1, "action": action}))
    assert found["calls"] == [["order_status", "waiting", None]]


def test_what_was_open_at_the_end_has_no_outcome(run: Run) -> None:
    call: Event = ("turn.tool_call.started", {"step": 1, "call_id": "c", "name": "slow", "arguments": {}})
    found = shown(run, started(), call, ("turn.cancelled", {"reason": "requested"}))
    assert (found["status"], found["calls"]) == ("cancelled", [["slow", "unknown", None]])


def test_a_failure_says_why(run: Run) -> None:
    found = shown(run, started(), ("turn.failed", {"error": {"message": "The model's provider failed."}}))
    assert (found["status"], found["problem"]) == ("failed", "The model's provider failed.")


def test_what_is_known_about_a_file_outlasts_reading_its_message_again(run: Run) -> None:
    blocks = [{"type": "text", "text": "x"}, {"type": "file", "source": {"artifact_id": "a"}}]
    message = {"role": "user", "turn_id": "t", "content": "x", "timestamp": "2026", "content_blocks": blocks}
    twice = """(() => {
      const conversation = new m.Conversation();
      conversation.takeMessages([given]);
      conversation.turn("t").attachments[0].artifact = { name: "notes.md" };
      conversation.takeMessages([given]);
      return conversation.turn("t").attachments;
    })()"""
    known = {"id": "a", "name": "", "artifact": {"name": "notes.md"}}
    assert run("chat/conversation.js", twice, message) == [known]


def test_a_message_is_sent_again_as_it_was(run: Run) -> None:
    facts = {"name": "n.md", "content_type": "text/markdown", "processing_strategy": "text"}
    web = {"type": "image_url", "image_url": {"url": "https://a.example/p.png"}}
    stored = [
        {"type": "text", "text": "x"},
        web,
        {"type": "file", "source": {"artifact_id": "a"}, **facts},
        {"type": "image", "url": "/api/v1/artifact-links/b/", "artifact_id": "b", **facts},
    ]
    message = {"role": "user", "turn_id": "t", "content": "x", "timestamp": "2026", "content_blocks": stored}
    again = """(async () => {
      const { Conversation } = await import("/chat/conversation.js");
      const conversation = new Conversation();
      conversation.takeMessages([given]);
      const sent = [];
      const follow = async ({ open }) => void sent.push(open(null).body.content);
      const talk = new m.Talk({ follow }, "fork");
      await talk.sendMessage(conversation.turn("t"));
      const [{ content, attachments }] = talk.turns;
      return { sent: sent[0], content, files: attachments.map(({ id, name }) => [id, name]) };
    })()"""
    found = run("chat/conversation.js", f"await {again}", message)
    plain = [
        {"type": "file", "source": {"artifact_id": "a"}},
        {"type": "image", "url": "/api/v1/artifact-links/b/"},
    ]
    assert found == {"sent": [*stored[:2], *plain], "content": "x", "files": [["a", "n.md"], ["b", "n.md"]]}


def test_turns_come_in_the_order_of_their_messages_and_those_without_one_last(run: Run) -> None:
    kinds = [("user", "b", "2026-02"), ("user", "a", "2026-01"), ("assistant", "half", "2025-12")]
    messages = [{"role": role, "turn_id": turn, "content": "x", "timestamp": at} for role, turn, at in kinds]
    ordered = """(() => {
      const conversation = new m.Conversation();
      conversation.turn("unknown");
      conversation.takeMessages(given);
      return conversation.turns.map(({ id }) => id);
    })()"""
    assert run("chat/conversation.js", ordered, messages) == ["half", "a", "b", "unknown"]


def test_a_refusal_is_said_once_and_its_times_are_those_of_the_reader(run: Run) -> None:
    message = "One of the company's budgets is used up (cost: 25 of 1). It renews at 2026-12-01T00:00:00.000000Z"
    problem = {"message": f"{message}.", "details": [{"message": message}, {"message": "Ask for more."}]}
    said = run("chat/conversation.js", "m.sentenceOf(given)", problem)
    assert said == f"{message}. Ask for more."
    said = run("model/format.js", "m.plainText(given)", said)
    assert said.count("budget") == 1
    assert said.endswith("Ask for more.")
    assert "T00:00" not in said
    assert "2026" in said


GIVEN = """(async () => {
  const { Conversation } = await import("/chat/conversation.js");
  const conversation = new Conversation();
  conversation.given = new m.GivenMessages();
  // The end of it is read first, and some of it twice.
  for (const offset of [2, 0, 2]) conversation.takeMessages(given.slice(offset, offset ? 99 : 2), offset);
  return conversation.turns.map(({ id, content, text, status, calls }) => ({
    id, content, text, status,
    calls: calls.map(({ name, arguments: given, status, output }) => [name, given, status, output]),
  }));
})()"""


def test_messages_from_elsewhere_are_shown_with_their_calls(run: Run) -> None:
    def message(role: str, content: str, *blocks: dict[str, Any], turn: str | None = None) -> dict[str, Any]:
        at = "2026-02" if turn else "2026-01"
        return {
            "id": f"{role}{content}", "role": role, "content": content, "timestamp": at, "turn_id": turn,
            "content_blocks": list(blocks),
        }  # fmt: skip

    asked = {"type": "tool_call", "id": "c", "name": "find", "arguments": {"of": "ferry"}}
    result = {"type": "tool_result", "call_id": "c", "output": "at nine"}
    messages = [
        message("user", "Hello"),
        message("assistant", "Hi."),
        message("user", "When does it leave?"),
        message("assistant", "Let me see.", asked),
        message("tool", "at nine", result),
        message("assistant", "At nine."),
        message("user", "Thanks", turn="t"),
        message("assistant", "Gladly", turn="t"),
    ]
    shown_turns = run("model/messages.js", f"await {GIVEN}", messages)
    told = {"id": None, "status": "completed"}
    assert shown_turns == [
        {**told, "content": "Hello", "text": "Hi.", "calls": []},
        {
            **told,
            "content": "When does it leave?",
            "text": "At nine.",
            "calls": [["find", {"of": "ferry"}, "completed", "at nine"]],
        },
        {**told, "id": "t", "content": "Thanks", "text": "Gladly", "calls": []},
    ]
