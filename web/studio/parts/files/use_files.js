/** The company's files, a page of them, and which are chosen. */
import { get } from "../../../api/client.js";
import { useState } from "../../../html.js";
import { useLoaded } from "../use_loaded.js";

/** `query` filters as `GET /files/` does. */
export function useFiles(query, limit) {
  const [offset, setOffset] = useState(0);
  const key = JSON.stringify(query);
  const [filtered, setFiltered] = useState(key);
  const begin = filtered === key ? offset : 0;
  const loaded = useLoaded((signal) => get("/files/", { ...query, limit, offset: begin }, { signal }), `${key}/${begin}`, { changes: "file" });
  const [chosen, setChosen] = useState(new Set());
  const choose = (id, on) => setChosen((now) => (on ? new Set(now).add(id) : new Set([...now].filter((each) => each !== id))));
  const go = (next) => (setFiltered(key), setOffset(next));
  return { ...loaded, page: loaded.value, query, limit, offset: begin, setOffset: go, chosen, choose, setChosen };
}
