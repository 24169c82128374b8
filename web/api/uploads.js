/** File uploads, which continue while the person visits other pages. */
import { Store } from "../store.js";
import { credential, endWith, persist, randomKey, ROOT, session, write } from "./client.js";
import { ApiError, checkSize, Unreachable } from "./requests.js";

const AT_ONCE = 3;
// Two minutes in total, since a gateway on a busy machine can take more than a minute to restart.
const ATTEMPTS = 20;

/**
 * Uploads: `{id, name, size, collectionId, state, sent, problem, record}`. `state`: `waiting`, `uploading`, `stored`,
 * `failed`.
 */
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

/** Queues files for upload. If a collection is given, they're added to it once they're stored. */
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
  // The service rejected the request with this idempotency key.
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

const LONGEST_MS = 1_200_000;

/** Resolves to the stored file's record. Rejects with `ApiError`, `Unreachable`, or an `AbortError`. */
export function upload(path, file, { key, onProgress, signal }) {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    checkSize(file);
    const request = new XMLHttpRequest();
    const form = new FormData();
    form.append("file", file);
    request.open("POST", ROOT + path);
    for (const [name, value] of Object.entries({ ...credential(), "idempotency-key": key })) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onload = () => settle(request, resolve, reject);
    request.timeout = LONGEST_MS;
    request.onerror = () => reject(new Unreachable());
    request.ontimeout = request.onerror;
    request.onabort = () => reject(new DOMException("The upload was cancelled.", "AbortError"));
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}

function settle(request, resolve, reject) {
  const answer = bodyOf(request.responseText);
  if (request.status < 300 && answer) return resolve(answer);
  const problem = new ApiError(request.status, answer?.error, Number(request.getResponseHeader("retry-after")) || null);
  endWith(problem);
  return reject(problem);
}

function bodyOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
