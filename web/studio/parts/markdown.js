/** Markdown of models and people as elements. HTML in it is shown as the text that it is, pictures as links. */
import DOMPurify from "dompurify";
import { Marked } from "marked";
import { html, useLayoutEffect, useMemo, useRef } from "../../html.js";
import { formulas } from "../../model/formulas.js";

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "table", "thead", "tbody", "tr", "th", "td", "a"],
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // Else their values would have to be addresses as well.
  ADD_URI_SAFE_ATTR: ["start", "align"],
  RETURN_DOM_FRAGMENT: true,
};

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

const marked = new Marked(formulas, {
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
    // A page has one heading of the first order, and it is not the model's.
    heading({ tokens, depth }) {
      return `<h${Math.min(6, depth + 2)}>${this.parser.parseInline(tokens)}</h${Math.min(6, depth + 2)}>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

function elementsOf(tokens) {
  const fragment = DOMPurify.sanitize(marked.parser(tokens), ALLOWED);
  // A link that leads nowhere would look broken.
  for (const link of fragment.querySelectorAll("a:not([href])")) link.replaceWith(...link.childNodes);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const block of fragment.querySelectorAll("pre, table")) {
    block.tabIndex = 0;
  }
  return [...fragment.childNodes];
}

// Characters that are read at a time, before the browser may draw and listen.
const PORTION = 20_000;

/** Shows a text. While it grows, blocks that stand already are left alone, with what is selected in them. */
class Blocks {
  #shown = [];
  #links = "";
  #timer = 0;

  show(box, text, growing) {
    this.end();
    const read = marked.lexer(text);
    const tokens = read.filter(({ type }) => type !== "space" && type !== "def");
    const links = JSON.stringify(read.links);
    // Where links lead may be said behind them.
    if (links !== this.#links) this.#keep(0);
    this.#links = links;
    let same = 0;
    while (same < tokens.length && this.#shown[same]?.raw === tokens[same].raw) same += 1;
    this.#keep(same);
    const fresh = tokens.slice(same);
    // Each call of what sanitises costs more than most blocks: a text that is whole needs few.
    const portions = growing ? fresh.map((token) => [token]) : portionsOf(fresh);
    for (const portion of portions) {
      const unread = document.createElement("div");
      unread.className = "unread";
      unread.textContent = portion.map(({ raw }) => raw).join("\n\n");
      this.#shown.push({ raw: portion.map(({ raw }) => raw).join(""), nodes: [unread], unread: portion });
      box.append(unread);
    }
    this.#read();
  }

  /** What is not read yet stays as it was written. */
  end() {
    clearTimeout(this.#timer);
  }

  /** Reads a portion in place of its text, then, when the browser has drawn it, the next one. */
  #read() {
    let length = 0;
    for (const block of this.#shown.filter(({ unread }) => unread)) {
      if (length >= PORTION) {
        this.#timer = setTimeout(() => this.#read());
        return;
      }
      const nodes = elementsOf(block.unread);
      block.nodes[0].replaceWith(...nodes);
      Object.assign(block, { nodes, unread: null });
      length += block.raw.length;
    }
  }

  /** Lets go of all but the first `count` blocks. */
  #keep(count) {
    for (const { nodes } of this.#shown.splice(count)) for (const node of nodes) node.remove();
  }
}

function portionsOf(tokens) {
  const portions = [];
  let length = PORTION;
  for (const token of tokens) {
    if (length >= PORTION) {
      portions.push([]);
      length = 0;
    }
    portions.at(-1).push(token);
    length += token.raw.length;
  }
  return portions;
}

/** `growing`: more of the text is on its way. */
export function Markdown({ text, growing = false }) {
  const box = useRef();
  const blocks = useMemo(() => new Blocks(), []);
  useLayoutEffect(() => blocks.show(box.current, text, growing), [text]);
  useLayoutEffect(() => () => blocks.end(), []);
  return html`<div class=${growing ? "markdown growing" : "markdown"} ref=${box}></div>`;
}
