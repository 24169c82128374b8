/** Passages in their documents, and words of a query in passages. */

/** `[from, to]` of a passage in a text, or null. Blanks may differ, since texts are read from pages and cells. */
export function locate(text, passage) {
  const wanted = passage.trim();
  if (!wanted) return null;
  const exact = text.indexOf(wanted);
  if (exact >= 0) return [exact, exact + wanted.length];
  const loose = squeezed(text);
  const found = loose.text.indexOf(squeezed(wanted).text);
  if (found < 0) return null;
  const last = found + squeezed(wanted).text.length - 1;
  return [loose.places[found], loose.places[last] + 1];
}

/** The text without blanks, and where each of its characters stands. */
function squeezed(text) {
  const places = [];
  let kept = "";
  for (let at = 0; at < text.length; at += 1) {
    if (/\s/.test(text[at])) continue;
    places.push(at);
    kept += text[at];
  }
  return { text: kept, places };
}

/** The text in pieces `{text, marked}`, where words of the query are marked. */
export function marked(text, query) {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? [])].sort((one, other) => other.length - one.length);
  if (words.length === 0) return [{ text, marked: false }];
  const pieces = [];
  let at = 0;
  for (const match of text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})(?![\\p{L}\\p{N}])`, "giu"))) {
    if (match.index > at) pieces.push({ text: text.slice(at, match.index), marked: false });
    pieces.push({ text: match[0], marked: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) pieces.push({ text: text.slice(at), marked: false });
  return pieces;
}

/** How many characters the service counts: code points, where JavaScript counts halves of some. */
export function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
