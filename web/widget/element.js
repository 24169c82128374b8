/** Elements of the page's document, made without any parser of HTML. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  chat: "M4 5h16v11H9l-5 4z",
  close: "M6 6l12 12M18 6L6 18",
  send: "M4 12l16-8-5 16-3-7z",
  stop: "M6 6h12v12H6z",
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.300 3.300 0 0 1 4.700 4.700L9.200 17a1.600 1.600 0 0 1-2.300-2.300L14 7.600",
  again: "M20 11a8 8 0 1 0-2 6M20 5v6h-6",
};

export function icon(name) {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 24 24");
  drawing.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", SHAPES[name]);
  drawing.append(path);
  return drawing;
}
