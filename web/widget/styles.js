/** The chat's look, as a constructed style sheet: pages that forbid inline styles allow it. */
const RULES = `
:host {
  all: initial;
  color-scheme: light dark;
  --surface: light-dark(#ffffff, #161b22);
  --sunken: light-dark(#eef0f4, #222a34);
  --line: light-dark(#d5dae2, #323b47);
  --line-strong: light-dark(#8c96a5, #667283);
  --text: light-dark(#18202b, #e5e9ef);
  --muted: light-dark(#566172, #9ba7b7);
  --danger: light-dark(#b42318, #ff9d93);
  --danger-soft: light-dark(#fdecea, #3a1d1b);
  --accent: light-dark(#3b4fd8, #9aa8ff);
  --accent-text: light-dark(#ffffff, #10142b);
  position: fixed;
  z-index: 2147483000;
  bottom: 1rem;
  right: 1rem;
  display: block;
  color: var(--text);
  font: 400 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
:host([data-position="left"]) { right: auto; left: 1rem; }
:host([data-theme="light"]) { color-scheme: light; }
:host([data-theme="dark"]) { color-scheme: dark; }
*, *::before, *::after { box-sizing: border-box; }
[hidden] { display: none !important; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 6px; }
svg { width: 1.2em; height: 1.2em; flex: none; fill: none; stroke: currentcolor; stroke-width: 1.8; stroke-linecap: round; stroke-linejoin: round; }
button { display: inline-flex; align-items: center; justify-content: center; gap: .4em; font: inherit; color: inherit; cursor: pointer; }
button:disabled { opacity: .55; cursor: default; }
.launcher { min-height: 48px; padding: 0 1.2em; border: 0; border-radius: 24px; background: var(--accent); color: var(--accent-text); font-weight: 600; box-shadow: 0 4px 18px #0004; }
.panel { display: flex; flex-direction: column; width: min(24rem, calc(100vw - 2rem)); height: min(38rem, calc(100dvh - 2rem)); border: 1px solid var(--line); border-radius: 14px; background: var(--surface); box-shadow: 0 8px 40px #0005; overflow: hidden; }
.head { display: flex; align-items: center; gap: .3rem; padding: .55rem .6rem .55rem 1rem; background: var(--accent); color: var(--accent-text); }
.head h2 { flex: 1; margin: 0; font-size: 1rem; font-weight: 600; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.head button { width: 36px; height: 36px; border: 0; border-radius: 8px; background: none; }
.head button:hover { background: #0002; }
.head :focus-visible { outline-color: var(--accent-text); outline-offset: -3px; }
.status { margin: 0; padding: .35rem 1rem; border-bottom: 1px solid var(--line); background: var(--sunken); font-size: .85em; text-align: center; }
.log { flex: 1; min-height: 0; padding: 1rem; overflow-y: auto; overscroll-behavior: contain; }
.turn { margin: 0 0 1.1rem; }
.question { width: fit-content; max-width: 88%; margin: 0 0 .6rem auto; padding: .5rem .8rem; border-radius: 14px 14px 4px; background: var(--sunken); white-space: pre-wrap; overflow-wrap: anywhere; }
.greeting, .markdown { overflow-wrap: anywhere; }
.greeting { margin: 0 0 1rem; white-space: pre-wrap; }
.markdown > :first-child { margin-top: 0; }
p, ul, ol, pre, blockquote, .wide { margin: 0 0 .6rem; }
ul, ol { padding-left: 1.4em; }
h3, h4, h5, h6 { margin: .9rem 0 .4rem; font-size: 1em; }
code, pre { font: .87em ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { padding: .6rem; border-radius: 8px; background: var(--sunken); overflow-x: auto; }
:not(pre) > code { padding: .05em .3em; border-radius: 4px; background: var(--sunken); }
blockquote { padding-left: .8rem; border-left: 3px solid var(--line-strong); color: var(--muted); }
hr { border: 0; border-top: 1px solid var(--line); }
a { color: inherit; text-decoration: underline; text-underline-offset: .15em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9em; }
th, td { padding: .25rem .5rem; border: 1px solid var(--line); text-align: left; }
th { background: var(--sunken); }
.markdown [align="center"] { text-align: center; }
.markdown [align="right"] { text-align: right; }
.note { margin: 0 0 .5rem; color: var(--muted); font-size: .85em; }
.note b { font-weight: 550; overflow-wrap: anywhere; }
.problem { margin: 0 0 .6rem; padding: .5rem .7rem; border-radius: 8px; background: var(--danger-soft); color: var(--danger); overflow-wrap: anywhere; }
details { margin: 0 0 .5rem; font-size: .85em; }
summary { color: var(--muted); cursor: pointer; }
.file { max-width: 100%; margin: 0 .4rem .4rem 0; padding: .25rem .7rem; border: 1px solid var(--line); border-radius: 8px; background: none; font-size: .88em; overflow-wrap: anywhere; }
.files { display: flex; flex-wrap: wrap; gap: .3rem; margin: 0; padding: .5rem .6rem 0; list-style: none; }
.files li { display: flex; align-items: center; gap: .3rem; max-width: 100%; padding: .1rem .1rem .1rem .6rem; border: 1px solid var(--line); border-radius: 8px; font-size: .85em; overflow-wrap: anywhere; }
.files button { width: 28px; height: 28px; padding: 0; border: 0; background: none; }
.failed { color: var(--danger); }
form { display: flex; align-items: flex-end; gap: .4rem; padding: .6rem; }
textarea { flex: 1; min-width: 0; min-height: 40px; max-height: 9rem; padding: .5rem .7rem; border: 1px solid var(--line-strong); border-radius: 10px; background: var(--surface); color: var(--text); font: inherit; font-size: 16px; resize: none; field-sizing: content; }
textarea:read-only { background: var(--sunken); }
textarea::placeholder { color: var(--muted); opacity: 1; }
form button { width: 40px; height: 40px; flex: none; border: 1px solid var(--line); border-radius: 10px; background: none; }
form .unknown { visibility: hidden; }
form .send { border-color: var(--accent); background: var(--accent); color: var(--accent-text); }
.busy { display: inline-block; width: .5rem; height: .5rem; margin-right: .4rem; border-radius: 50%; background: var(--line-strong); animation: pulse .7s infinite alternate; }
@keyframes pulse { from { opacity: .25; } }
@media (prefers-reduced-motion: reduce) { .busy { animation: none; } }
@media (max-width: 30rem) {
  :host([data-open]) { inset: 0; }
  .panel { width: 100%; height: 100%; border: 0; border-radius: 0; }
}
@media print { :host { display: none; } }
`;

/** `accent` is a colour of the page's choice, in which text is black or white, whichever can be read. */
export function styleSheets(accent) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(RULES);
  if (!accent || !isColour(accent)) return [sheet];
  const own = new CSSStyleSheet();
  own.replaceSync(`:host { --accent: ${accent}; --accent-text: ${textOn(accent)}; }`);
  return [sheet, own];
}

const isColour = (text) => CSS.supports("color", text) && !/[;{}]|var\(/.test(text);

function textOn(colour) {
  const surface = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  surface.fillStyle = colour;
  surface.fillRect(0, 0, 1, 1);
  const [red, green, blue] = [...surface.getImageData(0, 0, 1, 1).data].map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  // Above this luminance black has more contrast than white.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
