/** Markdown of models and people as elements. HTML in it is shown as the text that it is, pictures as links. */
import DOMPurify from "dompurify";
import { Marked } from "marked";
import { html, useLayoutEffect, useRef } from "../app/html.js";

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6",
    "hr", "table", "thead", "tbody", "tr", "th", "td", "a"],
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  RETURN_DOM_FRAGMENT: true,
};

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);

const marked = new Marked({
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

function elementsOf(text) {
  const fragment = DOMPurify.sanitize(marked.parse(text), ALLOWED);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const block of fragment.querySelectorAll("pre, table")) {
    block.tabIndex = 0;
  }
  return fragment;
}

export function Markdown({ text }) {
  const box = useRef();
  useLayoutEffect(() => {
    box.current.replaceChildren(elementsOf(text));
  }, [text]);
  return html`<div class="markdown" ref=${box}></div>`;
}
