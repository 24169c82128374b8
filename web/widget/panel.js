/** The chat's button and panel on a web page. */
import { Composer, useAttachments } from "../chat/composer.js";
import { Log, placeOf } from "../chat/log.js";
import { html, Icon } from "../html.js";
import { RULES } from "./rules.js";

/**
 * The style, as constructed style sheets, which work on pages that forbid inline styles. `accent` is the page's color;
 * text on it is black or white, whichever has more contrast.
 */
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
  // Above this luminance, black has more contrast than white.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

const STATES = {
  sending: "Sending…",
  queued: "Queued…",
  running: "Working…",
  waiting: "Waiting for input…",
  cancelled: "This reply was stopped.",
};

/** Hides tools from visitors, who only see that an approval is pending. */
const MOUNT = {
  Attached: ({ file: { name, artifact } }) => html`<p class="question-file">📎 ${artifact?.name || name || "file"}</p>`,
  Outcome: ({ turn: { artifacts, citations }, onDownload }) => html`
    ${artifacts.map((artifact) => html`<button key=${artifact.artifact_id} class="file" type="button" onClick=${() => onDownload(artifact)}>Download ${artifact.name}</button>`)}
    ${citations.length > 0 && html`<${Sources} citations=${citations} />`}`,
  stateOf: ({ status, calls }) =>
    status !== "completed" && (calls.some(({ action }) => action?.kind === "approval") ? "Waiting for approval…" : STATES[status]),
  problemOf: ({ problem, reference }) => [problem || "Something went wrong.", reference && `Reference: ${reference}`].filter(Boolean).join(" "),
};

function Sources({ citations }) {
  return html`
    <details>
      <summary>${citations.length === 1 ? "1 source" : `${citations.length} sources`}</summary>
      <ol>${citations.map((citation, at) => html`<li key=${at}><b>${placeOf(citation)}</b><blockquote>${citation.passage ?? ""}</blockquote></li>`)}</ol>
    </details>`;
}

/** The button and the panel. `on`: `{open, close, startOver, write, send, stop, download}`. */
export function Widget({ isOpen, words, visitor, problem, isWaiting, takesMessages, mayAttach, text, on }) {
  return html`
    <button class="launcher" type="button" hidden=${isOpen} aria-expanded=${isOpen} onClick=${on.open}><${Icon} name="chat" />${words.label}</button>
    <section class="panel" role="dialog" aria-label=${words.title} hidden=${!isOpen} onKeyDown=${({ key }) => key === "Escape" && on.close()}>
      <div class="head">
        <h2>${words.title}</h2>
        <button type="button" aria-label="Start over" title="Start over" onClick=${on.startOver}><${Icon} name="again" /></button>
        <button type="button" class="close" aria-label="Close" title="Close" onClick=${on.close}><${Icon} name="close" /></button>
      </div>
      <p class="status" role="status" hidden=${!isWaiting}>${isWaiting ? "Connection lost. Retrying…" : ""}</p>
      <${Log} key=${visitor?.key} turns=${visitor?.turns ?? []} mount=${MOUNT} onDownload=${on.download}>
        ${words.greeting && html`<p class="greeting">${words.greeting}</p>`}
      <//>
      <p class="problem" role="alert" hidden=${!problem}>${problem}</p>
      <${Writing}
        key=${`${visitor?.key} writing`} visitor=${visitor} text=${text} onText=${on.write} readOnly=${!takesMessages} mayAttach=${mayAttach}
        placeholder=${words.placeholder} running=${visitor?.running} onSend=${on.send} onStop=${on.stop} />
    </section>`;
}

/** The composer. Attached files belong to one conversation. */
function Writing({ visitor, ...given }) {
  const files = useAttachments((file) => visitor.upload(file));
  return html`<${Composer} files=${files} ...${given} />`;
}
