/** A knowledge base as it changes: by the timeline's events, or looked at again where the key may not read those. */
import { get } from "../../../api/client.js";
import { followEvents } from "../../../api/follow.js";
import { allows } from "../../../api/session.js";
import { useEffect, useRef } from "../../../html.js";
import { after } from "../../../model/ingestion.js";
import { useLoaded } from "../use_loaded.js";
import { useLookAgain } from "../use_look_again.js";

const LOOK_AGAIN_MS = 2_000;
const READ_AGAIN_MS = 300;

export function useKnowledgeBase(id) {
  const { value, problem, refresh, set } = useLoaded((signal) => get(`/knowledge-bases/${id}/`, {}, { signal }), id);
  const latest = useRef(null);
  latest.current = value;
  useEffect(() => {
    if (!allows("events:read")) return undefined;
    const stop = new AbortController();
    let timer = 0;
    // One ingestion ends with several events at once.
    const later = () => (timer ||= setTimeout(() => ((timer = 0), refresh()), READ_AGAIN_MS));
    const onEvent = ({ data: event }) => {
      const now = latest.current && after(latest.current, event);
      if (now === null) later();
      else if (now !== latest.current) set((latest.current = now));
    };
    const go = async () => {
      // What happened before the stream was open is in the record that is read then.
      while (await followEvents({ type: "knowledge_base.*" }, { onEvent, onOpen: later, signal: stop.signal }));
    };
    go().catch(() => later());
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id]);
  const runs = value && ["pending", "running"].includes(value.status);
  // Beside the stream too, more seldom: a record that somebody left pending is nobody's event.
  const pause = allows("events:read") ? LOOK_AGAIN_MS * 2 : LOOK_AGAIN_MS;
  useLookAgain(refresh, runs ? pause : null, [value]);
  return { knowledgeBase: value, problem, refresh, set };
}
