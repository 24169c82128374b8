/** The names under `tools` in a configuration's text, read and written where they stand. */
const KEY = /^tools[ \t]*:[ \t]*(.*)$/m;

/** `{names, from, to}`: the place is that of the whole entry, or the end of the text when there is none. */
export function toolsIn(text) {
  const found = text.match(KEY);
  if (!found) return { names: [], from: text.length, to: text.length };
  const from = found.index;
  const after = text.slice(from + found[0].length);
  const inline = found[1].replace(/\s+#.*$/, "").trim();
  if (inline) {
    const names = inline.replace(/^\[|\]$/g, "").split(",").map(nameOf).filter(Boolean);
    return { names, from, to: from + found[0].length };
  }
  const block = after.match(/^(?:\n[ \t]*(?:-[ \t]+[^\n]*|#[^\n]*)?(?=\n|$))*/)[0].replace(/(?:\n[ \t]*)*$/, "");
  const names = [...block.matchAll(/^[ \t]*-[ \t]+(.*)$/gm)].map(([, name]) => nameOf(name.replace(/\s+#.*$/, "")));
  return { names, from, to: from + found[0].length + block.length };
}

function nameOf(written) {
  return written.trim().replace(/^(["'])(.*)\1$/, "$2");
}

/** The text with these tools in the place of those that it has. */
export function withTools(text, names) {
  const { from, to } = toolsIn(text);
  const before = text.slice(0, from);
  const entry = names.length ? `tools:\n${names.map((name) => `  - ${/[*]/.test(name) ? JSON.stringify(name) : name}`).join("\n")}` : "tools: []";
  return `${before}${before && !before.endsWith("\n") ? "\n" : ""}${entry}${to === text.length ? "\n" : text.slice(to)}`;
}
