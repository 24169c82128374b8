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

// Words that are in every text; a query of these alone is marked all the same.
const STOP_WORDS = new Set(
  ("a about all am an and any are as at be been but by can could did do does for from had has have he her his how i if in into is it its " +
    "may me might must my no not of on or our shall she should so than that the their them then there these they this to us was we were what " +
    "when where which who why will with would you your").split(" "),
);
const ENDINGS = /(?:ies|ing|ed|es|s|y)$/u;

/** The text in pieces `{text, marked}`, where words of the query are marked, in other forms as well. */
export function marked(text, query) {
  const all = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}]{2,}/gu) ?? [])];
  const telling = all.filter((word) => !STOP_WORDS.has(word));
  const words = (telling.length ? telling : all).map(formsOf).sort((one, other) => other.length - one.length);
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

/** A pattern of a word with its usual endings. */
function formsOf(word) {
  const stem = word.replace(ENDINGS, "");
  return stem.length >= 3 ? `${stem}(?:ies|ing|ed|es|s|y|${word.slice(stem.length)})?` : word;
}

/** How many characters the service counts: code points, where JavaScript counts halves of some. */
export function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
