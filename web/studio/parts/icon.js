/** Line icons, drawn here so that nothing has to be loaded; they never carry a meaning alone. */
import { html } from "../../html.js";

const SHAPES = {
  logo: "M4 5h10M8 12h12M12 19h7",
  menu: "M4 6h16M4 12h16M4 18h16",
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  timeline: "M4 6h9M8 12h12M12 18h6",
  chat: "M4 5h16v11H9l-5 4z",
  agents: "M12 4v3M6 7h12v11H6zM9.5 12h.01M14.5 12h.01M10 15h4",
  knowledge: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM9 8h6M9 12h6",
  files: "M6 3h8l4 4v14H6zM14 3v4h4",
  keys: "M14 10a4 4 0 1 0-3.5 4L12 15.500h2V18h2.500v2.500H20V17l-5.500-5.500z",
  connections: "M9 12h6M10 7H7a5 5 0 0 0 0 10h3M14 7h3a5 5 0 0 1 0 10h-3",
  secrets: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3M12 14.500v2",
  usage: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  operators: "M3 12h4l3-7 4 14 3-7h4",
  webhooks: "M13 3L5 13.500h5.500L10 21l9-11.500h-6z",
  upload: "M12 16V5M7 10l5-5 5 5M5 20h14",
  download: "M12 4v11M7 10l5 5 5-5M5 20h14",
  search: "M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500L20 20",
  chevron: "M9 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
  sun: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.400 1.400M17.600 17.600L19 19M19 5l-1.400 1.400M6.400 17.600L5 19",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  live: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM6.300 6.300a8 8 0 0 0 0 11.400M17.700 6.300a8 8 0 0 1 0 11.400",
  pause: "M8 5v14M16 5v14",
  send: "M4 12l16-8-5 16-3-7z",
  stop: "M6 6h12v12H6z",
  attach: "M20 11l-8.500 8.500a5 5 0 0 1-7-7L13 4a3.300 3.300 0 0 1 4.700 4.700L9.200 17a1.600 1.600 0 0 1-2.300-2.300L14 7.600",
  tool: "M14.500 6a4 4 0 0 0-5.200 5.200L4 16.500V20h3.500l5.300-5.300A4 4 0 0 0 18 9.500L15.500 12 12 8.500z",
  plus: "M12 5v14M5 12h14",
  again: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
  check: "M5 12l5 5L19 7",
};

export function Icon({ name }) {
  return html`
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d=${SHAPES[name] ?? ""} />
    </svg>`;
}
