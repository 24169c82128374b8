/** Who is signed in, with scopes and limits; and the look of the studio. */
import { html, useEffect, useRef, useState } from "../../html.js";
import { address } from "../router.js";
import { useStore } from "../../store.js";
import { momentText } from "../../model/format.js";

const THEMES = ["system", "light", "dark"];

export function Account({ me }) {
  const box = useClosing();
  return html`
    <details class="account" ref=${box}>
      <summary>
        <span class="avatar" aria-hidden="true">${me.user_name.slice(0, 1).toUpperCase()}</span>
        <span class="who"><b>${me.user_name}</b><small>${me.company_name}</small></span>
      </summary>
      <div class="account-panel">
        <dl class="facts">
          <dt>Company</dt><dd>${me.company_name}</dd>
          <dt>Limit</dt><dd>${me.rate_limit ? `${me.rate_limit} requests a minute` : "no limit of requests"}</dd>
          <dt>Key ends</dt><dd>${me.expires_at ? momentText(me.expires_at) : "never"}</dd>
          <dt>Scopes</dt><dd class="scopes">${me.scopes.map((scope) => html`<code key=${scope}>${scope}</code> `)}</dd>
        </dl>
        <${Theme} />
      </div>
    </details>`;
}

/** A panel that lies over the page: `Escape`, a click beside it and going to another page close it. */
function useClosing() {
  const box = useRef();
  const { path } = useStore(address);
  const close = () => (box.current.open = false);
  useEffect(() => {
    close();
  }, [path]);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    addEventListener("pointerdown", ({ target }) => box.current.contains(target) || close(), { signal });
    box.current.addEventListener(
      "keydown",
      ({ key }) => {
        if (key !== "Escape" || !box.current.open) return;
        close();
        box.current.querySelector("summary").focus();
      },
      { signal },
    );
    return () => stop.abort();
  }, []);
  return box;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("aes.studio.theme") ?? "system");
  const choose = (next) => {
    setTheme(next);
    if (next === "system") {
      localStorage.removeItem("aes.studio.theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("aes.studio.theme", next);
      document.documentElement.dataset.theme = next;
    }
  };
  return html`
    <fieldset class="choice">
      <legend>Look</legend>
      ${THEMES.map(
        (each) => html`
          <label key=${each}>
            <input type="radio" name="theme" value=${each} checked=${theme === each} onChange=${() => choose(each)} />
            <span>${each}</span>
          </label>`,
      )}
    </fieldset>`;
}
