/** Changes of what is listed: one stream of the timeline for all lists that the tab shows. */
import { followEvents } from "./follow.js";
import { allows } from "./session.js";

const KINDS = ["agent", "api_key", "budget", "collection", "connection", "file", "knowledge_base", "secret", "session", "toolset", "webhook"];
const TYPES = KINDS.map((kind) => `${kind}.*`).join();
const followers = new Set();
let reading = null;

/** Calls `changed` after events of these kinds, such as `["agent"]`, until the returned function is called. */
export function followChanges(kinds, changed) {
  if (!allows("events:read")) return () => {};
  const follower = { kinds, changed };
  followers.add(follower);
  if (!reading) {
    reading = new AbortController();
    read(reading.signal);
  }
  return () => {
    followers.delete(follower);
    if (followers.size) return;
    reading?.abort();
    reading = null;
  };
}

async function read(signal) {
  const tell = (kind) => {
    for (const { kinds, changed } of [...followers]) if (!kind || kinds.includes(kind)) changed();
  };
  const onEvent = ({ data: { type } }) => void tell(type.split(".")[0]);
  try {
    // After a long absence nobody knows what has changed.
    while (await followEvents({ type: TYPES }, { signal, onEvent })) tell();
  } catch (problem) {
    // Lists stay as they were read; whoever comes next tries again.
    console.info("Changes made elsewhere are not shown.", problem.message);
    if (reading?.signal === signal) reading = null;
  }
}
