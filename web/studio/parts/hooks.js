/** Hooks that many parts use, and components that are loaded on demand. */
import { persist, send } from "../../api/client.js";
import { followChanges } from "../../api/follow.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../html.js";

/** Returns `{busy, problem, run, reset}`. `run` resolves to the action's result, or to undefined on failure. */
export function useAction(action) {
  const [state, setState] = useState({ busy: false, problem: null });
  const busy = useRef(false);
  const run = async (...given) => {
    if (busy.current) return undefined;
    busy.current = true;
    setState({ busy: true, problem: null });
    try {
      const result = await action(...given);
      setState({ busy: false, problem: null });
      return result;
    } catch (problem) {
      setState({ busy: false, problem });
      return undefined;
    } finally {
      busy.current = false;
    }
  };
  return { ...state, run, reset: () => setState({ busy: false, problem: null }) };
}

/**
 * Returns a check to run before saving. It throws if someone has changed the edited object in the meantime, so that
 * `textOf` returns different text for `read()` than for `given`. A second attempt to save replaces that change.
 */
export function useUnchanged(given, read, textOf) {
  const known = useRef(given && textOf(given));
  return async () => {
    const now = given && textOf(await read());
    if (now === known.current) return;
    known.current = now;
    throw new Error("This was changed elsewhere since you opened it. Save again to replace that change.");
  };
}

const PREFIX = "aes.studio.draft.";

/** Returns `[text, setText, forget]`. Text that equals the `given` text isn't a draft. */
export function useDraft(name, given = "") {
  const [text, setText] = useState(() => sessionStorage.getItem(PREFIX + name) ?? given);
  const write = (next) => {
    if (next === given) sessionStorage.removeItem(PREFIX + name);
    else keep(PREFIX + name, next);
    setText(next);
  };
  return [text, write, () => sessionStorage.removeItem(PREFIX + name)];
}

/** Moves a draft to another key, unless that key already has one. */
export function moveDraft(from, to) {
  const text = sessionStorage.getItem(PREFIX + from);
  if (text === null || sessionStorage.getItem(PREFIX + to)) return;
  keep(PREFIX + to, text);
  sessionStorage.removeItem(PREFIX + from);
}

function keep(name, text) {
  try {
    sessionStorage.setItem(name, text);
  } catch {
    // Session storage is limited to a few megabytes, so longer drafts don't survive a reload.
    sessionStorage.removeItem(name);
  }
}

/** Returns whether files are being dragged over an element, and the handlers that track this. */
export function useDrop(onFiles) {
  const [depth, setDepth] = useState(0);
  useEffect(() => {
    // Without this, a file that is dropped outside of the element would replace the studio in the browser.
    const stay = (event) => holdsFiles(event) && event.preventDefault();
    for (const type of ["dragover", "drop"]) addEventListener(type, stay);
    return () => {
      for (const type of ["dragover", "drop"]) removeEventListener(type, stay);
    };
  }, []);
  return [
    depth > 0,
    {
      onDragEnter: (event) => holdsFiles(event) && setDepth((now) => now + 1),
      onDragLeave: (event) => holdsFiles(event) && setDepth((now) => Math.max(0, now - 1)),
      onDragOver: (event) => holdsFiles(event) && event.preventDefault(),
      onDrop: (event) => {
        if (!holdsFiles(event)) return;
        event.preventDefault();
        setDepth(0);
        onFiles([...event.dataTransfer.files]);
      },
    },
  ];
}

function holdsFiles(event) {
  return event.dataTransfer?.types.includes("Files");
}

/** Fetches an image with the credential. Returns its object URL, or null until then and on failure. */
export function useImage(path, query = {}) {
  const [address, setAddress] = useState(null);
  useEffect(() => {
    if (!path) return undefined;
    let made = null;
    let gone = false;
    send("GET", path, { query })
      .then((response) => response.blob())
      .then((blob) => gone || setAddress((made = URL.createObjectURL(blob))))
      .catch(() => setAddress(null));
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [path]);
  return address;
}

const ANSWER_MS = 60_000;
const TOGETHER_MS = 500;
// The pause between reads of lists that change often.
const BETWEEN_MS = 5_000;

/**
 * Returns `{value, problem, refresh, set}`. `load(signal)` runs again when `key` changes and on `refresh()`. The
 * previous value is kept until then, so that nothing jumps. `changes`: kinds of events that trigger a reload, such as
 * `agent`.
 */
export function useLoaded(load, key = "", { changes = "" } = {}) {
  const [shown, setShown] = useState({ value: null, problem: null });
  const latest = useRef(load);
  const running = useRef(null);
  latest.current = load;
  const refreshLatest = useRef(null);
  const refresh = async () => {
    running.current?.abort();
    const stop = (running.current = new AbortController());
    try {
      const value = await persist(() => latest.current(AbortSignal.any([stop.signal, AbortSignal.timeout(ANSWER_MS)])), { signal: stop.signal });
      if (!stop.signal.aborted) setShown({ value, problem: null });
    } catch (problem) {
      if (!stop.signal.aborted) setShown((now) => ({ ...now, problem }));
    }
  };
  refreshLatest.current = refresh;
  useEffect(() => {
    refresh();
    return () => running.current?.abort();
  }, [key]);
  useEffect(() => {
    if (!changes) return undefined;
    let timer = 0;
    let isReading = false;
    let isOld = false;
    let earliest = 0;
    let isShown = true;
    const plan = () => {
      isOld = true;
      // Don't abort a read because of a change: with constant changes, no read would ever finish.
      if (!isReading) timer ||= setTimeout(again, Math.max(TOGETHER_MS, earliest - Date.now()));
    };
    const again = async () => {
      timer = 0;
      isReading = true;
      isOld = false;
      await refreshLatest.current();
      isReading = false;
      earliest = Date.now() + BETWEEN_MS;
      if (isOld && isShown) plan();
    };
    const stop = followChanges(changes.split(" "), plan);
    return () => {
      isShown = false;
      clearTimeout(timer);
      stop();
    };
  }, [changes]);
  return { ...shown, refresh, set: (value) => setShown({ value, problem: null }) };
}

/** Calls `look` after a pause whenever one of the dependencies `answered` changes, but never if `pauseMs` is null. */
export function useLookAgain(look, pauseMs, answered) {
  useEffect(() => {
    if (pauseMs === null) return undefined;
    let timer = 0;
    const wait = () => (timer = setTimeout(() => (document.hidden ? wait() : look()), pauseMs));
    wait();
    return () => clearTimeout(timer);
  }, [...answered, pauseMs]);
}

export const STILL_MS = 2_000;
const LOOK_MS = 100;
/** The time for which scrolling continues after the wheel was turned or a key was pressed. */
const SCROLL_MS = 500;
const TOLERANCE_PX = 4;

let scrolledAt = -Infinity;
for (const type of ["wheel", "touchmove", "keydown"]) {
  addEventListener(type, () => (scrolledAt = Date.now()), { capture: true, passive: true });
}

/**
 * Detects whether an element has been still for 2 s, because a click on something that has just moved under the pointer
 * wasn't meant for it. Returns `[element, isStill, check]`: the element's ref, and whether it hasn't just appeared or
 * moved, except by scrolling. `check()` tests this immediately.
 */
export function useStill() {
  const element = useRef();
  const seen = useRef({ left: NaN, top: NaN, at: 0 });
  const [isStill, setStill] = useState(false);
  const check = () => {
    if (!element.current) return false;
    const box = element.current.getBoundingClientRect();
    // Positions are relative to the page, since only the reader scrolls it.
    const [left, top] = [box.left + scrollX, box.top + scrollY];
    const { current: before } = seen;
    const now = Date.now();
    if (!(Math.hypot(left - before.left, top - before.top) <= TOLERANCE_PX)) {
      const isScrolled = before.at > 0 && now - scrolledAt < SCROLL_MS;
      seen.current = { left, top, at: isScrolled ? before.at : now };
    }
    const still = now - seen.current.at >= STILL_MS;
    setStill(still);
    return still;
  };
  useLayoutEffect(() => {
    let timer = 0;
    const look = () => {
      check();
      timer = setTimeout(look, LOOK_MS);
    };
    look();
    return () => clearTimeout(timer);
  }, []);
  return [element, isStill, check];
}

/** Returns a component that is loaded on demand. Shows nothing until then, or if loading fails. */
export function lazy(load) {
  let loaded = null;
  return function Late(props) {
    const [, repaint] = useState(0);
    useEffect(() => {
      if (loaded) return undefined;
      let isShown = true;
      load().then((component) => ((loaded = component), isShown && repaint(1)), (problem) => console.error(problem));
      return () => (isShown = false);
    }, []);
    return loaded && html`<${loaded} ...${props} />`;
  };
}
