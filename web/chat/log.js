/** The turns of a conversation. The log stays scrolled to its end until the reader scrolls up. */
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { Markdown } from "./markdown.js";

const END_PX = 40;
const READ_AT_ONCE = 20_000;

/**
 * The log. `children` come before the turns, and other properties are passed to each turn. `onEarlier` loads some of
 * the `earlier` messages.
 */
export function Log({ turns, earlier = 0, onEarlier, children, ...given }) {
  const box = useRef();
  const inner = useRef();
  const atEnd = useRef(true);
  const fromEnd = useRef(null);
  const stay = () => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  };
  useLayoutEffect(stay);
  // Keep the scroll position when earlier messages are inserted above.
  useLayoutEffect(() => {
    if (fromEnd.current !== null) box.current.scrollTop = box.current.scrollHeight - fromEnd.current;
    fromEnd.current = null;
  }, [earlier]);
  const showEarlier = () => {
    fromEnd.current = box.current.scrollHeight - box.current.scrollTop;
    atEnd.current = false;
    onEarlier();
  };
  useEffect(() => {
    // Follow changes in height, such as when an image loads or a table opens.
    const watch = new ResizeObserver(stay);
    watch.observe(inner.current);
    return () => watch.disconnect();
  }, []);
  const scrolled = () => {
    if (!box.current) return;
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    atEnd.current = scrollTop + clientHeight > scrollHeight - END_PX;
  };
  const last = turns.at(-1);
  const near = nearFrom(turns);
  // Always scroll to a message that the reader sends.
  useLayoutEffect(() => {
    if (last?.status === "sending") atEnd.current = true;
    stay();
  }, [last?.key]);
  return html`
    <div class="log" role="log" aria-label="Conversation" tabindex="0" ref=${box} onScroll=${scrolled}>
      <div ref=${inner}>
        ${earlier > 0 && html`<p class="empty"><button class="button" onClick=${showEarlier}>Show ${earlier} earlier message${earlier > 1 ? "s" : ""}</button></p>`}
        ${children}
        ${turns.map((turn, at) => html`<${ChatTurn} key=${turn.key} turn=${turn} beginsNear=${at >= near} ...${given} />`)}
      </div>
    </div>`;
}

/** Returns the index from which turns are rendered as Markdown immediately. */
function nearFrom(turns) {
  let length = 0;
  let at = turns.length;
  while (at > 0 && length < READ_AT_ONCE) length += turns[(at -= 1)].text.length;
  return at;
}

/**
 * A turn. It's rendered again only when it changes, since a conversation may have hundreds. `mount` contains what
 * differs between the studio and the widget: the components `Attached`, `Outcome` and optionally `Asking`, `ToolCard`
 * and `Link`, and the texts `stateOf(turn)` and `problemOf(turn)`. Other properties are passed to the components.
 */
class ChatTurn extends Component {
  #drawn = "";

  shouldComponentUpdate({ turn, isBusy }) {
    return !turn.hasEnded || turn !== this.props.turn || isBusy !== this.props.isBusy || stampOf(turn) !== this.#drawn;
  }

  render(props) {
    this.#drawn = stampOf(props.turn);
    return html`<${Turn} ...${props} />`;
  }
}

function stampOf({ status, content, attachments, answer, usage, citations, artifacts, calls }) {
  const attached = attachments.map(({ artifact }) => artifact !== null);
  return JSON.stringify([status, content === null, attached, answer?.length, usage, citations.length, artifacts.length, calls.map((call) => [call.status, call.output?.length])]);
}

/** `beginsNear`: whether the turn is among the last turns when it first appears. */
function Turn({ beginsNear, ...given }) {
  const { turn, mount } = given;
  const { text } = turn;
  const writing = turn.status === "running" && Boolean(text);
  const [element, isNear] = useNear(".log", beginsNear || !turn.hasEnded);
  return html`
    <article class="turn" ref=${element} aria-busy=${!turn.hasEnded}>
      <div class="question">
        ${turn.content !== "" && html`<p class="question-text">${turn.content ?? "…"}</p>`}
        ${turn.attachments.map((file, at) => html`<${mount.Attached} key=${at} file=${file} isNear=${isNear} />`)}
        ${mount.Asking && html`<${mount.Asking} ...${given} />`}
      </div>
      <div class="reply">
        ${turn.steps.filter(({ calls }) => calls.length > 0).map((step) => html`
          <div key=${step.number}>
            ${step.text && html`<${Text} text=${step.text} isNear=${isNear} />`}
            ${mount.ToolCard && step.calls.map((call) => html`<${mount.ToolCard} key=${call.id} call=${call} ...${given} />`)}
          </div>`)}
        ${text && html`<${Text} text=${text} isNear=${isNear} growing=${writing} />`}
        <${mount.Outcome} isNear=${isNear} ...${given} />
        ${!writing && html`<${State} ...${given} />`}
      </div>
    </article>`;
}

/** Shows plain text until the reader scrolls near it, and then renders it as Markdown. */
function Text({ isNear, ...given }) {
  return isNear ? html`<${Markdown} ...${given} />` : html`<div class="markdown unread">${given.text}</div>`;
}

function State({ turn, mount }) {
  const link = turn.hasEnded && mount.Link && html`<${mount.Link} turn=${turn} />`;
  if (turn.status === "failed" || turn.status === "refused") return html`<p class="problem" role="alert">${mount.problemOf(turn)}${link && " "}${link}</p>`;
  const said = mount.stateOf(turn);
  return (said || link) && html`<p class=${`turn-facts ${turn.status}`}>${said && html`<span>${said}</span>`}${link}</p>`;
}

/** Describes a passage's position in its file. */
export function placeOf({ file_name: name, page, row }) {
  return [name ?? "Passage", page != null && `page ${page}`, row != null && `row ${row}`].filter(Boolean).join(", ");
}

/**
 * Returns `[ref, isNear]`: whether the element is or was near the visible part of its container. Starts as `begins`.
 */
function useNear(container, begins) {
  const element = useRef();
  const [hasBeen, setHasBeen] = useState(begins);
  useEffect(() => {
    if (hasBeen) return undefined;
    const look = (entries) => entries.some(({ isIntersecting }) => isIntersecting) && setHasBeen(true);
    const watch = new IntersectionObserver(look, { root: element.current.closest(container), rootMargin: "100% 0px" });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, [hasBeen]);
  return [element, hasBeen];
}
