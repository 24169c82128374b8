/** Writes plain values as YAML and finds the line of a path in YAML text. Only the service parses YAML. */
const PLAIN = /^[A-Za-z_][A-Za-z0-9_ ./:-]*$/;
const RESERVED = /^(?:true|false|null|yes|no|on|off|~|y|n)$/i;

export function toYaml(value, depth = 0) {
  const indent = "  ".repeat(depth);
  if (Array.isArray(value)) {
    return value.map((each) => (isBranch(each) ? item(indent, each, depth) : `${indent}- ${scalar(each, indent)}\n`)).join("");
  }
  return Object.entries(value)
    .map(([name, each]) => `${indent}${scalar(name)}:${isBranch(each) ? `\n${toYaml(each, depth + 1)}` : ` ${scalar(each, indent)}\n`}`)
    .join("");
}

function item(indent, value, depth) {
  return `${indent}- ${toYaml(value, depth + 1).slice(indent.length + 2)}`;
}

function isBranch(value) {
  return value !== null && typeof value === "object" && Object.keys(value).length > 0;
}

function scalar(value, indent = "") {
  if (value === null) return "null";
  if (Array.isArray(value)) return "[]";
  if (typeof value === "object") return "{}";
  if (typeof value !== "string") return String(value);
  if (isBlock(value)) return `|${value.endsWith("\n") ? "" : "-"}\n${value.replace(/\n$/, "").replace(/^(?=.)/gm, `${indent}  `)}`;
  return PLAIN.test(value) && !RESERVED.test(value) && !/: |:$| $/.test(value) ? value : JSON.stringify(value);
}

/** Returns whether a block scalar, which keeps lines readable, can express the text. */
function isBlock(value) {
  return value.includes("\n") && !/^\s|[^\S\n]\n|\n\n$|[^\n\x20-\x7e\u00a0-\uffff]/.test(value);
}

/** Returns the line of the value at `path`, counted from 1, or null if this search doesn't support the YAML's style. */
export function lineOf(text, path) {
  const lines = text.split("\n");
  let from = 0;
  let found = null;
  let indent = -1;
  for (const part of path) {
    const at = typeof part === "number" ? itemAt(lines, from, indent, part) : nameAt(lines, from, indent, part);
    if (at === null) return found;
    found = at + 1;
    indent = lines[at].search(/\S/);
    from = typeof part === "number" ? at : at + 1;
  }
  return found;
}

function nameAt(lines, from, indent, name) {
  for (let at = from; at < lines.length; at += 1) {
    const [, space, given] = lines[at].match(/^(\s*(?:- )?)["']?([^\s:"'#]+)["']?\s*:/) ?? [];
    if (given === undefined) continue;
    if (space.length <= indent && at > from) return null;
    if (given === String(name)) return at;
  }
  return null;
}

function itemAt(lines, from, indent, index) {
  let seen = -1;
  for (let at = from; at < lines.length; at += 1) {
    const dash = lines[at].match(/^(\s*)- /);
    if (dash && dash[1].length >= indent) seen += 1;
    else if (/^\S/.test(lines[at]) && at > from) return null;
    if (seen === index) return at;
  }
  return null;
}

/** Returns a line diff of two texts as `[" " | "-" | "+", line]`, based on their longest common subsequence. */
export function lineDiff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push([" ", a[i]]), (i += 1), (j += 1);
    else if (i < a.length && (j === b.length || lengths[i + 1][j] >= lengths[i][j + 1])) lines.push(["-", a[i]]), (i += 1);
    else lines.push(["+", b[j]]), (j += 1);
  }
  return lines;
}
