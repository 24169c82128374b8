/** Formulas as code: Markdown would take their backslashes and underscores for its own. */
const BLOCK = /^(?:\$\$(?!\s*\$)[^]+?\$\$|\\\[[^]+?\\\])[ \t]*(?:\n+|$)/;
// Amounts of money are none: a formula touches both of its dollars, and no digit or letter follows it.
const INLINE = /^(?:\$\$[^$]+?\$\$|\\\[[^]+?\\\]|\\\([^]+?\\\)|\$(?![\s$])(?:\\.|[^$\\\n])*?(?<![\s\\])\$(?![\w$]))/;

const rule = (level, type, start, whole) => ({
  name: `${level}Formula`,
  level,
  start: (text) => start.exec(text)?.index,
  tokenizer: (text) => {
    const [raw] = whole.exec(text) ?? [];
    return raw && { type, raw, text: raw.trim() };
  },
});

/** For `new Marked()`. */
export const formulas = {
  extensions: [rule("block", "code", /(?:^|\n)(?:\$\$|\\\[)/, BLOCK), rule("inline", "codespan", /\$|\\[([]/, INLINE)],
};
