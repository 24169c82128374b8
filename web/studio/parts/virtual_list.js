/** A list with keyboard navigation. All rows have the same height, and only visible rows are in the document. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../html.js";

// Shorter lists render every row, so that the browser's search finds them.
const FEW = 250;
const OVERSCAN = 10;
const KEYS = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 };

/**
 * The list. `row(index, active)` renders a row, to which the list adds `data-index` and a position. With `newestFirst`,
 * rows are inserted at the top, and the visible rows stay in place. Otherwise, a list that is scrolled to its end stays
 * there.
 */
export function VirtualList({ count, height, row, label, role, newestFirst = false, active, onActive, onOpen, rowKey, ...rest }) {
  const box = useRef();
  const [range, setRange] = useState([0, 60]);
  const before = useRef(count);
  const measure = () => {
    // The observer may report a change of size after the list has been removed.
    if (!box.current) return;
    const { scrollTop, clientHeight } = box.current;
    const first = Math.max(0, Math.floor(scrollTop / height) - OVERSCAN);
    const last = Math.ceil((scrollTop + clientHeight) / height) + OVERSCAN;
    setRange((now) => (now[0] === first && now[1] === last ? now : [first, last]));
  };
  useLayoutEffect(() => {
    const added = count - before.current;
    const { scrollTop, clientHeight } = box.current;
    const atEnd = scrollTop + clientHeight >= before.current * height - height / 2;
    before.current = count;
    if (newestFirst && scrollTop > 0 && added > 0) box.current.scrollTop = scrollTop + added * height;
    else if (!newestFirst && atEnd && added > 0 && scrollTop > 0) box.current.scrollTop = count * height;
    measure();
  }, [count, height]);
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [height]);
  const [from, to] = count <= FEW ? [0, count] : [Math.min(range[0], count), Math.min(range[1], count)];
  const show = (index) => {
    const top = index * height;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight) box.current.scrollTop = top + height - clientHeight;
  };
  const walk = (event) => {
    const next = nextIndex(event.key, active, count);
    if (next !== null) {
      event.preventDefault();
      show(next);
      onActive(next);
      requestAnimationFrame(() => box.current?.querySelector(`[data-index="${next}"]`)?.focus({ preventScroll: true }));
    } else if ((event.key === "Enter" || event.key === " ") && event.target.dataset.index !== undefined) {
      event.preventDefault();
      onOpen(Number(event.target.dataset.index));
    } else rest.onKey?.(event);
  };
  const rows = [];
  for (let index = from; index < to; index += 1) {
    rows.push(html`<${Place} key=${rowKey(index)} top=${index * height} height=${height}>${row(index, index === active)}<//>`);
  }
  return html`
    <div class="virtual-list" ref=${box} role=${role} aria-label=${label} aria-rowcount=${role === "grid" ? count : undefined} onScroll=${measure} onKeyDown=${walk}>
      <div class="virtual-space" role="presentation" style=${{ height: `${count * height}px` }}>${rows}</div>
    </div>`;
}

function Place({ top, height, children }) {
  return html`<div class="virtual-row" role="presentation" style=${{ top: `${top}px`, height: `${height}px` }}>${children}</div>`;
}

function nextIndex(key, active, count) {
  if (!count) return null;
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!(key in KEYS)) return null;
  return Math.min(count - 1, Math.max(0, (active ?? -1) + KEYS[key]));
}
