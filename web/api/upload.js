/** One file on its way to the service, with how far it is: `fetch` does not tell. */
import { ApiError, checkSize, Unreachable } from "./requests.js";
import { credential, endWith, ROOT } from "./session.js";

const LONGEST_MS = 1_200_000;

/** Resolves to the service's record. Rejects with `ApiError`, `Unreachable`, or an `AbortError`. */
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
    request.onabort = () => reject(new DOMException("The upload was ended.", "AbortError"));
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
