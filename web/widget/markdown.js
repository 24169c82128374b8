/**
 * Markdown as elements, made one by one from what marked has read: no text is ever parsed as HTML, so that there is
 * nothing to sanitise, and pages that require trusted types need no policy for it. HTML is shown as the text that it is.
 */
import { Marked } from "../vendor/marked/marked.esm.js";
import { formulas } from "../model/formulas.js";
import { element } from "./element.js";

const marked = new Marked(formulas, { gfm: true, breaks: true });
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
const ALIGNED = { left: "start", center: "center", right: "end" };

/** Shows a text that grows: what stands already is left alone. */
export class Markdown {
  #shown = [];

  constructor() {
    this.node = element("div", { className: "markdown" });
  }

  show(text) {
    const tokens = marked.lexer(text).filter(({ type }) => type !== "space" && type !== "def");
    let same = 0;
    while (same < tokens.length && this.#shown[same]?.raw === tokens[same].raw) same += 1;
    for (const { node } of this.#shown.splice(same)) node.remove();
    for (const token of tokens.slice(same)) {
      const node = block(token);
      this.#shown.push({ raw: token.raw, node });
      this.node.append(node);
    }
  }
}

const BLOCKS = {
  heading: ({ tokens, depth }) => element(`h${Math.min(6, depth + 2)}`, {}, inline(tokens)),
  paragraph: ({ tokens }) => element("p", {}, inline(tokens)),
  code: ({ text }) => element("pre", { tabIndex: 0 }, element("code", {}, text)),
  blockquote: ({ tokens }) => element("blockquote", {}, tokens.filter(({ type }) => type !== "space").map(block)),
  hr: () => element("hr"),
  list: ({ ordered, start, items }) =>
    element(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : {}, items.map(item)),
  table: ({ header, rows, align }) => {
    const row = (cells, name) =>
      element("tr", {}, cells.map(({ tokens }, at) => element(name, { className: ALIGNED[align[at]] ?? "" }, inline(tokens))));
    const body = rows.map((cells) => row(cells, "td"));
    const table = element("table", {}, element("thead", {}, row(header, "th")), element("tbody", {}, body));
    return element("div", { className: "table", tabIndex: 0 }, table);
  },
};

function block(token) {
  const made = BLOCKS[token.type];
  if (made) return made(token);
  return element("p", {}, token.tokens ? inline(token.tokens) : plain(token.text ?? token.raw));
}

function item({ tokens, task, checked }) {
  const box = task ? (checked ? "☑ " : "☐ ") : null;
  const parts = tokens.filter(({ type }) => type !== "space" && type !== "checkbox");
  return element("li", {}, box, parts.map((each) => (each.type === "text" ? inline(each.tokens ?? [each]) : block(each))).flat());
}

const INLINE = {
  strong: ({ tokens }) => element("strong", {}, inline(tokens)),
  em: ({ tokens }) => element("em", {}, inline(tokens)),
  del: ({ tokens }) => element("del", {}, inline(tokens)),
  codespan: ({ text }) => element("code", {}, plain(text)),
  br: () => element("br"),
  link: ({ href, tokens }) => link(href, inline(tokens)),
  image: ({ href, text }) => link(href, [plain(text || href)]),
  html: ({ raw }) => raw,
};

function inline(tokens) {
  return tokens.map((token) => {
    const made = INLINE[token.type];
    if (made) return made(token);
    return token.tokens ? inline(token.tokens) : plain(token.text ?? token.raw);
  }).flat();
}

/** Addresses of the web and of mail lead somewhere; any other is only told. */
function link(href, children) {
  const target = /^(?:https?:|mailto:)/i.test(href) ? href : null;
  if (!target) return element("span", {}, children);
  return element("a", { href: target, target: "_blank", rel: "noopener noreferrer nofollow" }, children);
}

function plain(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi, (whole, decimal, hex, name) => {
    if (name) return ENTITIES[name] ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
