/** Bytes from the API, which a link cannot fetch since it sends no credential. */
import { send } from "./client.js";

const SECONDS = 600;

/** Hands a file to the browser as a download. */
export async function download(path, name, query = {}) {
  const response = await send("GET", path, { query, signal: AbortSignal.timeout(SECONDS * 1000) });
  const address = URL.createObjectURL(await response.blob());
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** The first `most` bytes as text, and whether there are more. */
export async function readText(path, most, { query = {}, signal } = {}) {
  const response = await send("GET", path, { query, headers: { range: `bytes=0-${most - 1}` }, signal });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const whole = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
  // A cut may go through a letter; so many bytes at the end are dropped.
  const text = new TextDecoder().decode(bytes.subarray(0, most), { stream: whole > bytes.length });
  return { text, isWhole: whole <= bytes.length };
}
