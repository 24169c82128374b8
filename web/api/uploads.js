/** Files on their way, which go on when one looks at another page. */
import { Store } from "../store.js";
import { randomKey, write } from "./client.js";
import { persist } from "./network.js";
import { session } from "./session.js";
import { upload } from "./upload.js";

const AT_ONCE = 3;
const ATTEMPTS = 8;

/** Of each: `{id, name, size, collectionId, state, sent, problem, record}`; `state` is `waiting`, `uploading`, `stored` or `failed`. */
export const uploads = new Store([]);

const files = new Map();
let last = 0;
let stop = new AbortController();

session.follow(({ state }) => {
  if (state === "in") return;
  stop.abort();
  stop = new AbortController();
  files.clear();
  uploads.set([]);
});

addEventListener("beforeunload", (event) => {
  if (uploads.value.some(isUnderWay)) event.preventDefault();
});

export function isUnderWay({ state }) {
  return state === "waiting" || state === "uploading";
}

/** Takes files; those for a collection are added to it when they are stored. */
export function addUploads(chosen, collectionId = null) {
  const added = chosen.map((file) => {
    const id = (last += 1);
    files.set(id, { file, key: randomKey() });
    return { id, name: file.name, size: file.size, collectionId, state: "waiting", sent: 0, problem: "", record: null };
  });
  uploads.update((all) => [...all, ...added]);
  next();
}

export function uploadAgain(id) {
  // The service has refused what that key stands for.
  files.get(id).key = randomKey();
  change(id, { state: "waiting", sent: 0, problem: "" });
  next();
}

export function dropUploads(ids) {
  for (const id of ids) files.delete(id);
  uploads.update((all) => all.filter((each) => !ids.includes(each.id)));
}

function change(id, fields) {
  uploads.update((all) => all.map((each) => (each.id === id ? { ...each, ...fields } : each)));
}

function next() {
  const busy = uploads.value.filter(({ state }) => state === "uploading").length;
  for (const each of uploads.value.filter(({ state }) => state === "waiting").slice(0, AT_ONCE - busy)) send(each);
}

async function send({ id, collectionId }) {
  const { signal } = stop;
  const { file, key } = files.get(id);
  change(id, { state: "uploading" });
  const attempt = () => upload("/files/", file, { key, signal, onProgress: (sent) => change(id, { sent }) });
  try {
    const record = await persist(attempt, { signal, attempts: ATTEMPTS });
    if (collectionId) await persist(() => write("POST", `/collections/${collectionId}/files/`, { file_ids: [record.id] }), { signal, attempts: ATTEMPTS });
    change(id, { state: "stored", sent: 1, record });
  } catch (problem) {
    change(id, { state: "failed", problem: problem.message });
  }
  next();
}
