// Talks with an agent by the protocol's own client, and prints what it has at the end as JSON.
//   node ag_ui_client.mjs CLIENT_MODULE '{"url", "headers", "threadId", "tools"?, "messages", "results"?, "decision"?}'
const [module, given] = process.argv.slice(2);
const { HttpAgent } = await import(module);
const asked = JSON.parse(given);
const agent = new HttpAgent({ url: asked.url, headers: asked.headers, threadId: asked.threadId });
const seen = [];
const ends = [];
agent.subscribe({
  onEvent: ({ event }) => { seen.push(event.type); },
  onRunFinishedEvent: ({ event }) => { ends.push(event.outcome ?? null); },
});
for (const content of asked.messages) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await agent.runAgent({ tools: asked.tools ?? [] });
  for (let end = ends.at(-1); end; end = ends.at(-1)) {
    const called = new Set(agent.messages.filter((each) => each.role === "tool").map((each) => each.toolCallId));
    const calls = agent.messages.flatMap((each) => each.toolCalls ?? []).filter((call) => !called.has(call.id));
    const own = calls.filter((call) => call.function.name in (asked.results ?? {}));
    for (const call of own) {
      const result = asked.results[call.function.name];
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: result });
    }
    const resume = (end.interrupts ?? []).map(({ id }) => (
      { interruptId: id, status: "resolved", payload: { decision: asked.decision } }
    ));
    if (own.length === 0 && resume.length === 0) break;
    await agent.runAgent({ tools: asked.tools ?? [], ...(resume.length ? { resume } : {}) });
  }
}
console.log(JSON.stringify({ messages: agent.messages, state: agent.state, seen, ends }));
