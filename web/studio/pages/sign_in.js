/** The sign-in form. The API key stays in the studio's tabs. */
import { session, signIn } from "../../api/client.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { useStore } from "../../store.js";
import { Icon } from "../parts/views.js";

export function SignIn() {
  const { state, problem } = useStore(session);
  const [key, setKey] = useState("");
  const field = useRef();
  useEffect(() => {
    document.title = "Sign in · Studio";
    field.current?.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    if (key.trim()) signIn(key.trim());
  };
  const checking = state === "checking";
  return html`
    <main class="sign-in">
      <form class="card" onSubmit=${submit}>
        <p class="brand"><${Icon} name="logo" />Studio</p>
        <h1>Sign in</h1>
        <p class="muted">Watch your agents work in real time. The key is kept until you close the studio's last tab.</p>
        <label for="api-key">API key</label>
        <input
          id="api-key"
          ref=${field}
          type="password"
          autocomplete="off"
          spellcheck="false"
          placeholder="aes_…"
          required
          value=${key}
          aria-invalid=${problem ? "true" : undefined}
          aria-describedby=${problem ? "sign-in-problem" : undefined}
          onInput=${(event) => setKey(event.target.value)}
        />
        <button class="button primary wide" disabled=${checking}>${checking ? "Signing in…" : "Sign in"}</button>
        <div id="sign-in-problem" role="alert">${problem && html`<p class="problem">${problem}</p>`}</div>
      </form>
    </main>`;
}
