/**
 * Renders Markdown as elements, built one by one from marked's tokens. No text is parsed as HTML, so neither sanitizing
 * nor a Trusted Types policy is needed. HTML appears as text, images as links.
 */
import { Marked } from "marked";
import { html, useLayoutEffect, useMemo, useRef } from "../html.js";

// Formulas become code. Otherwise, Markdown would interpret their backslashes and underscores.
const BLOCK_FORMULA = /^(?:\$\$(?!\s*\$)[^]+?\$\$|\\\[[^]+?\\\])[ \t]*(?:\n+|$)/;
// Distinguishes formulas from amounts of money: both dollar signs touch the formula, and no letter or digit follows.
const INLINE_FORMULA = /^(?:\$\$[^$]+?\$\$|\\\[[^]+?\\\]|\\\([^]+?\\\)|\$(?![\s$])(?:\\.|[^$\\\n])*?(?<![\s\\])\$(?![\w$]))/;

const formula = (level, type, start, whole) => ({
  name: `${level}Formula`,
  level,
  start: (text) => start.exec(text)?.index,
  tokenizer: (text) => {
    const [raw] = whole.exec(text) ?? [];
    return raw && { type, raw, text: raw.trim() };
  },
});

const extensions = [
  formula("block", "code", /(?:^|\n)(?:\$\$|\\\[)/, BLOCK_FORMULA),
  formula("inline", "codespan", /\$|\\[([]/, INLINE_FORMULA),
];
const marked = new Marked({ extensions, gfm: true, breaks: true });

// Characters to render before yielding to the browser.
const PORTION = 20_000;

/** Shows text in a box. While the text grows, finished blocks aren't re-rendered, so that selections survive. */
export class Blocks {
  #shown = [];
  #unread = [];
  #rest = element("div", { className: "unread" });
  #links = "";
  #timer = 0;

  show(box, text) {
    this.end();
    const read = marked.lexer(text);
    const tokens = read.filter(isShown);
    const links = JSON.stringify(read.links);
    let same = 0;
    // Link definitions may come after the links.
    while (links === this.#links && same < tokens.length && this.#shown[same]?.raw === tokens[same].raw) same += 1;
    for (const { node } of this.#shown.splice(same)) node.remove();
    this.#links = links;
    this.#unread = tokens.slice(same);
    box.append(this.#rest);
    this.#read();
  }

  /** Ends rendering. Text that hasn't been rendered yet is shown as it was written. */
  end() {
    clearTimeout(this.#timer);
  }

  /** Renders one part, and the next part once the browser has painted. */
  #read() {
    let [count, length] = [0, 0];
    while (count < this.#unread.length && length < PORTION) length += this.#unread[count++].raw.length;
    for (const token of this.#unread.splice(0, count)) {
      const node = block(token);
      this.#shown.push({ raw: token.raw, node });
      this.#rest.before(node);
    }
    this.#rest.textContent = this.#unread.map(({ raw }) => raw).join("\n\n");
    if (this.#unread.length) this.#timer = setTimeout(() => this.#read());
    else this.#rest.remove();
  }
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.flat());
  return made;
}

const isShown = ({ type }) => type !== "space" && type !== "def";
const blocks = (tokens) => tokens.filter(isShown).map(block);

const BLOCKS = {
  // The page's only first-level heading must not come from the model.
  heading: ({ tokens, depth }) => element(`h${Math.min(6, depth + 2)}`, {}, inline(tokens)),
  code: ({ text }) => element("pre", { tabIndex: 0 }, element("code", {}, text)),
  blockquote: ({ tokens }) => element("blockquote", {}, blocks(tokens)),
  hr: () => element("hr"),
  list: ({ ordered, start, items }) => element(ordered ? "ol" : "ul", ordered && start !== 1 ? { start } : {}, items.map(item)),
  table: ({ header, rows, align }) => {
    const row = (cells, name) =>
      element("tr", {}, cells.map(({ tokens }, at) => element(name, align[at] ? { align: align[at] } : {}, inline(tokens))));
    const body = rows.map((cells) => row(cells, "td"));
    const table = element("table", {}, element("thead", {}, row(header, "th")), element("tbody", {}, body));
    return element("div", { className: "wide", tabIndex: 0 }, table);
  },
  html: ({ raw }) => element("p", {}, raw.trim()),
};

function block(token) {
  return BLOCKS[token.type]?.(token) ?? element("p", {}, inlineOf(token));
}

/** Renders a list item. In a tight list, the text after the marker isn't wrapped in a block. */
function item({ tokens }) {
  const isInline = ({ type }) => type === "text" || type === "checkbox";
  return element("li", {}, tokens.filter(isShown).flatMap((each) => (isInline(each) ? inlineOf(each) : block(each))));
}

const INLINE = {
  strong: ({ tokens }) => element("strong", {}, inline(tokens)),
  em: ({ tokens }) => element("em", {}, inline(tokens)),
  del: ({ tokens }) => element("del", {}, inline(tokens)),
  codespan: ({ text }) => element("code", {}, text),
  br: () => element("br"),
  link: ({ href, tokens }) => link(href, inline(tokens)),
  image: ({ href, text }) => link(href, [plain(text || href)]),
  html: ({ raw }) => raw,
  checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
};

const inline = (tokens) => tokens.flatMap(inlineOf);

function inlineOf(token) {
  const made = INLINE[token.type];
  if (made) return made(token);
  return token.tokens ? inline(token.tokens) : plain(token.text ?? token.raw);
}

/** Turns web and mail addresses into links. Other addresses remain text. */
function link(address, children) {
  const href = plain(address);
  if (!/^(?:https?:|mailto:)/i.test(href)) return children;
  return element("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, children);
}

// The names of the characters from U+00A0 to U+00BF, in order. `SIGNS` lists further names with their characters.
const LATIN =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil " +
  "sup1 ordm raquo frac14 frac12 frac34 iquest";
const SIGNS =
  "times × divide ÷ amp & lt < gt > quot \" apos ' ndash – mdash — lsquo ‘ rsquo ’ ldquo “ rdquo ” bdquo „ bull • hellip … prime ′ euro € trade ™ larr ← uarr ↑ " +
  "rarr → darr ↓ harr ↔ rArr ⇒ hArr ⇔ minus − infin ∞ asymp ≈ ne ≠ equiv ≡ le ≤ ge ≥ sum ∑ prod ∏ radic √ part ∂ int ∫ isin ∈ Delta Δ Omega Ω " +
  "alpha α beta β gamma γ delta δ epsilon ε theta θ lambda λ mu μ pi π sigma σ phi φ omega ω";
const ENTITIES = new Map([
  ...LATIN.split(" ").map((name, at) => [name, String.fromCodePoint(160 + at)]),
  ...SIGNS.match(/\S+ \S+/g).map((pair) => pair.split(" ")),
]);

function plain(text) {
  return text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi, (whole, decimal, hex, name) => {
    if (name) return ENTITIES.get(name) ?? whole;
    const code = decimal ? Number(decimal) : parseInt(hex, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}

/** Renders text. `growing`: whether more text follows. */
export function Markdown({ text, growing = false }) {
  const box = useRef();
  const blocks = useMemo(() => new Blocks(), []);
  useLayoutEffect(() => blocks.show(box.current, text), [text]);
  useLayoutEffect(() => () => blocks.end(), []);
  return html`<div class=${growing ? "markdown growing" : "markdown"} ref=${box}></div>`;
}
