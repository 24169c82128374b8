/** Keeps the frame when a page fails, and shows what happened instead of nothing. */
import { Component } from "preact";
import { html } from "../../html.js";

export class Boundary extends Component {
  constructor() {
    super();
    this.state = { problem: null };
  }

  componentDidCatch(problem) {
    console.error(problem);
    this.setState({ problem });
  }

  render({ children }, { problem }) {
    if (!problem) return children;
    return html`
      <div class="page" role="alert">
        <h1>This page has failed</h1>
        <p>${String(problem.message ?? problem)}</p>
        <p><button class="button" onClick=${() => location.reload()}>Load it again</button></p>
      </div>`;
  }
}
