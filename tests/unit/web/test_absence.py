"""The studio in a tab that comes into sight again, with a service that is made of functions."""

from typing import Any

from tests.unit.web.conftest import Run, drawn, in_world


def test_a_stream_goes_on_after_the_last_position_it_was_told(run: Run) -> None:
    absence = """
      serve((request, signal) => stream(signal));
      const stop = new AbortController();
      const seen = [];
      const onEvent = ({ data }) => void seen.push(data.n);
      const whole = m.followEvents({ type: "turn.*" }, { after: 3, signal: stop.signal, onEvent });
      await until(() => streams.length === 1);
      streams[0].write('id: 7\\ndata: {"n": 1}\\n\\n: keep-alive\\nid: 9\\n\\n');
      await until(() => seen.length === 1);
      look(true);
      await until(() => streams[0].ended);
      look(false);
      await until(() => streams.length === 2);
      streams[1].write('id: 10\\ndata: {"n": 2}\\n\\n');
      await until(() => seen.length === 2);
      look(true);
      await until(() => streams[1].ended);
      passed = 600_000;
      look(false);
      const asked = requests.map(({ query, lastId }) => [query.after ?? null, lastId]);
      return { seen, isToBeReadAnew: await whole, asked };
    """
    found = run("api/follow.js", in_world(absence))
    assert found == {"seen": [1, 2], "isToBeReadAnew": True, "asked": [["3", None], [None, "9"]]}


def test_after_minutes_without_a_connection_one_reads_anew_in_sight_too(run: Run) -> None:
    outage = """
      let isReachable = true;
      serve((request, signal) => {
        if (!isReachable) throw new TypeError("Failed to fetch");
        return stream(signal);
      });
      const stop = new AbortController();
      let whole = m.followEvents({}, { signal: stop.signal, onEvent: () => {} });
      await until(() => streams.length === 1);
      streams[0].write(": keep-alive\\nid: 9\\n\\n");
      await elapse(1_000);
      isReachable = false;
      streams[0].fail();
      await until(() => requests.length > 3);
      const short = new Set(requests.slice(1).map(({ lastId }) => lastId));
      passed = 600_000;
      const isToBeReadAnew = await whole;
      // A trace is shown whole: it goes on where it was.
      whole = m.followEvents({}, { signal: stop.signal, onEvent: () => {}, longestMs: Infinity });
      passed = 1_200_000;
      isReachable = true;
      await until(() => streams.length === 2);
      stop.abort();
      return { short: [...short], isToBeReadAnew, isEnded: await whole };
    """
    found = run("api/follow.js", in_world(outage))
    assert found == {"short": ["9"], "isToBeReadAnew": True, "isEnded": False}


def test_a_knowledge_base_is_followed_from_now_on_after_a_long_absence(run: Run) -> None:
    away = """
      const record = { id: "k", status: "completed" };
      serve(({ path }, signal) => (path === "/events/" ? stream(signal) : Response.json(record)));
      signIn("events:read");
      draw(() => (m.useKnowledgeBase("k"), null));
      await until(() => streams.length === 1);
      streams[0].write("id: 9\\n\\n");
      await elapse(1_000);
      look(true);
      await until(() => streams[0].ended);
      passed = 600_000;
      const records = () => requests.filter(({ path }) => path === "/knowledge-bases/k/").length;
      const before = records();
      look(false);
      await until(() => streams.length === 2 && records() > before);
      return end(requests.filter(({ path }) => path === "/events/").map(({ query, lastId }) => [query, lastId]));
    """
    of_now = [{"type": "knowledge_base.*"}, None]
    assert run("studio/parts/knowledge/base_page.js", drawn(away)) == [of_now, of_now]


def test_a_message_that_is_not_accepted_is_repeated_out_of_sight(run: Run) -> None:
    sending = """
      let isReachable = false;
      serve(({ method }, signal) => {
        if (!isReachable) throw new TypeError("Failed to fetch");
        return stream(signal, method === "POST" ? { location: "/api/v1/runtime/s/turns/t/events/" } : {});
      });
      const { follow } = await import("/api/follow.js");
      const talk = new m.Talk({ follow }, "s");
      look(true);
      const whole = talk.say("Hello", []);
      await until(() => requests.length > 3);
      // Longer than a tab keeps its streams.
      await elapse(15_000);
      const before = requests.length;
      await until(() => requests.length > before);
      isReachable = true;
      await until(() => streams.length === 1 && streams[0].ended);
      look(false);
      await until(() => streams.length === 2);
      streams[1].write('id: 1\\nevent: turn.cancelled\\ndata: {"reason": "requested"}\\n\\n');
      await whole;
      const { method, path } = requests.at(-1);
      const methods = new Set(requests.slice(0, -1).map(({ method }) => method));
      return { before: [...methods], last: [method, path], status: talk.turns[0].status };
    """
    found = run("chat/conversation.js", in_world(sending))
    assert found == {"before": ["POST"], "last": ["GET", "/runtime/s/turns/t/events/"], "status": "cancelled"}


MISSED = """
  const messages = [];
  const events = [];
  const say = (turn, at, ends = true) => {
    const add = (role, content, second) =>
      messages.push({ id: role + turn, role, turn_id: turn, content, timestamp: `2026-01-01T00:00:${second}Z` });
    add("user", `Question ${turn}`, at);
    const time = `2026-01-01T00:00:${at}Z`;
    events.unshift({ position: at * 10, turn_id: turn, type: "turn.queued", time, data: {} });
    if (ends) add("assistant", `Answer ${turn}`, at + 1);
  };
  serve(({ path, query }, signal) => {
    if (path === "/runtime/s/messages/") {
      const from = Number(query.offset ?? 0);
      return Response.json({ messages: messages.slice(from, from + Number(query.limit)), total: messages.length });
    }
    if (path === "/events/" && query.order) return Response.json({ events, has_more: false, next: 1 });
    return stream(signal);
  });
  signIn("events:read");
  let conversation;
  const shown = () => conversation.turns.map(({ id, content, text, status }) => [id, content, text, status]);
  say("a", 10);
  draw(() => ((conversation = m.useConversation("s")), null));
  await until(() => streams.length === 1);
  const told = requests.length;
"""
ASKED = """
  const counted = requests.slice(told).filter(({ query }) => query.limit !== "1");
  const asked = counted.map(({ path, query }) => [path, query.offset ?? null]);
  return end({ turns: shown(), asked });
"""
QUESTIONS: list[list[Any]] = [
    ["a", "Question a", "Answer a", "completed"],
    ["b", "Question b", "Answer b", "completed"],
    ["c", "Question c", "Answer c", "completed"],
    ["d", "Question d", "", "queued"],
]


def test_turns_that_were_missed_come_with_their_questions_in_order(run: Run) -> None:
    short = """
      look(true);
      await until(() => streams[0].ended);
      say("b", 20), say("c", 30), say("d", 40, false);
      look(false);
      await until(() => streams.length === 2);
      for (const turn of ["d", "b", "c", "d"]) streams[1].write(`data: {"turn_id": "${turn}"}\\n\\n`);
      await until(() => streams.length === 3);
    """
    found = run("studio/parts/chat/use_conversation.js", drawn(MISSED + short + ASKED))
    assert found["turns"] == QUESTIONS
    stream, events, messages = ["/events/", None], ["/events/", None], ["/runtime/s/messages/", "2"]
    assert found["asked"] == [stream, messages, events, ["/runtime/s/turns/d/events/", None]]


def test_after_a_long_absence_a_conversation_is_read_from_where_it_was_left(run: Run) -> None:
    long = """
      look(true);
      await until(() => streams[0].ended);
      say("b", 20), say("c", 30), say("d", 40, false);
      passed = 600_000;
      look(false);
      await until(() => streams.length === 3);
    """
    found = run("studio/parts/chat/use_conversation.js", drawn(MISSED + long + ASKED))
    assert found["turns"] == QUESTIONS
    messages, events = ["/runtime/s/messages/", "2"], ["/events/", None]
    assert found["asked"] == [messages, events, ["/runtime/s/turns/d/events/", None], events]


def test_what_was_missed_waits_for_the_message_on_its_way(run: Run) -> None:
    sending = """
      const own = conversation.conversation.add({ content: "Mine", blocks: null, attachments: [] });
      say("b", 20);
      streams[0].write('id: 20\\ndata: {"turn_id": "b"}\\n\\n');
      await elapse(10_000);
      const meanwhile = shown().length;
      own.status = "refused";
      await until(() => shown().length === 2 + 1);
      return end({ meanwhile, turns: shown().map(([id]) => id) });
    """
    found = run("studio/parts/chat/use_conversation.js", drawn(MISSED + sending))
    assert found == {"meanwhile": 2, "turns": ["a", "b", None]}


def test_a_fork_has_the_calls_of_its_history_from_the_session_before_it_which_went_on(run: Run) -> None:
    forked = """
      const time = "2026-01-01T00:00:01Z";
      const said = { turn_id: "t", content: "x", timestamp: time };
      const messages = ["user", "assistant"].map((role) => ({ id: role, role, ...said }));
      const call = { step: 1, call_id: "c", name: "calculator" };
      const reply = { content: "42", tool_calls: [], citations: [], artifacts: [] };
      const events = [
        { position: 1, turn_id: "t", time, type: "turn.tool_call.started", data: { ...call, arguments: {} } },
        { position: 2, turn_id: "t", time, type: "turn.tool_call.completed", data: { ...call, output: "42" } },
        { position: 3, turn_id: "t", time, type: "turn.completed", data: { response: reply } },
      ];
      serve(({ path, query }, signal) => {
        if (path === "/runtime/s/messages/") return Response.json({ messages, total: messages.length });
        if (path === "/sessions/s/") return Response.json({ forked_from: "origin" });
        if (query.turn_id) return Response.json({ events: events.slice(-1), has_more: false, next: 3 });
        if (query.session_id === "origin" && query.before !== "4") {
          // It has gone on ever since.
          const later = { position: 9, turn_id: "later", time: "2026-02-01T00:00:00Z", type: "turn.started", data: {} };
          return Response.json({ events: [later], has_more: true, next: 9 });
        }
        const known = query.session_id === "origin" ? events.toReversed() : [];
        return query.order ? Response.json({ events: known, has_more: false, next: 1 }) : stream(signal);
      });
      signIn("events:read");
      let conversation;
      draw(() => ((conversation = m.useConversation("s")), null));
      await until(() => conversation.turns[0]?.calls.length);
      const [{ calls, sessionId, text }] = conversation.turns;
      return end([calls.map(({ name, status, output }) => [name, status, output]), sessionId, text]);
    """
    found = run("studio/parts/chat/use_conversation.js", drawn(forked))
    assert found == [[["calculator", "completed", "42"]], "origin", "42"]


def test_names_of_files_are_asked_for_one_at_a_time_and_given_up(run: Run) -> None:
    nameless = """
      const source = { artifact_id: "a" };
      const blocks = [{ type: "file", source }];
      const message = { role: "user", turn_id: "t", content: "x", timestamp: "1", content_blocks: blocks };
      let under = 0;
      let most = 0;
      let answer;
      const held = new Promise((resolve) => (answer = resolve));
      serve(async ({ path }) => {
        if (path === "/runtime/s/messages/") return Response.json({ messages: [message], total: 1 });
        most = Math.max(most, (under += 1));
        await held;
        under -= 1;
        return new Response("", { status: 503 });
      });
      const { read, send } = await import("/api/client.js");
      const talk = new m.Talk({ get: read, send }, "s");
      await Promise.all([talk.loadMessages(0), talk.loadMessages(0)]);
      const asked = () => requests.filter(({ path }) => path === "/sessions/s/artifacts/").length;
      await until(asked);
      await elapse(1_000);
      answer();
      await until(() => asked() === 2 && !under);
      // Longer than the first pauses before something is repeated.
      await elapse(10_000);
      const { waitingStreams } = await import("/api/client.js");
      return { most, asked: asked(), isWaiting: waitingStreams.value.size > 0, attached: talk.turns[0].attachments };
    """
    found = run("chat/conversation.js", in_world(nameless))
    assert found == {"most": 1, "asked": 2, "isWaiting": False, "attached": [{"id": "a", "name": "", "artifact": None}]}


def test_files_of_the_session_it_was_forked_from_are_found_and_gone_ones_asked_for_once(run: Run) -> None:
    forked = """
      const file = (id) => ({ type: "file", source: { artifact_id: id }, name: `${id}.md` });
      const blocks = ["own", "old", "gone"].map(file);
      const message = { role: "user", turn_id: "t", content: "x", timestamp: "1", content_blocks: blocks };
      const record = (id, session) => ({ artifact_id: id, session_id: session, name: `${id}.md` });
      serve(({ path }) => {
        if (path === "/runtime/s/messages/") return Response.json({ messages: [message], total: 1 });
        if (path === "/sessions/s/artifacts/") return Response.json({ artifacts: [record("own", "s")] });
        if (path === "/artifacts/old/") return Response.json(record("old", "origin"));
        return new Response("", { status: 404 });
      });
      const { read, send } = await import("/api/client.js");
      const talk = new m.Talk({ get: read, send }, "s");
      await talk.loadMessages(0);
      await until(() => requests.some(({ path }) => path === "/artifacts/gone/"));
      await elapse(2_000);
      await talk.loadMessages(0);
      await elapse(2_000);
      const shown = talk.turns[0].attachments.map(({ name, artifact }) => [name, artifact?.session_id ?? null]);
      return { shown, asked: requests.map(({ path }) => path).filter((path) => path.includes("artifacts")) };
    """
    found = run("chat/conversation.js", in_world(forked))
    assert found["shown"] == [["own.md", "s"], ["old.md", "origin"], ["gone.md", None]]
    assert found["asked"] == ["/sessions/s/artifacts/", "/artifacts/old/", "/artifacts/gone/"]
