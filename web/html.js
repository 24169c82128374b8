/** Exports template markup, hooks and icons for a single import. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { Component, createContext, Fragment, render } from "preact";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

/**
 * Returns a component that draws line icons by name. The shapes are inline, so nothing is loaded. An icon is never the
 * only way to convey a meaning.
 */
export function iconOf(shapes) {
  return ({ name }) => html`
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d=${shapes[name] ?? ""} />
    </svg>`;
}

/** The icons that every chat uses. */
export const SHAPES = {
  chat: "M4 5h16v11H9l-5 4z",
  close: "M6 6l12 12M18 6L6 18",
  send: "M4 12l16-8-5 16-3-7z",
  stop: "M6 6h12v12H6z",
  attach: "M20 11l-8.500 8.500a5 5 0 0 1-7-7L13 4a3.300 3.300 0 0 1 4.700 4.700L9.200 17a1.600 1.600 0 0 1-2.300-2.300L14 7.600",
  again: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
};

export const Icon = iconOf(SHAPES);
