/** Markup in template literals, and the hooks of components, from one place. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
export { createContext, Fragment, render } from "preact";
export { useCallback, useContext, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
