/** Files of the message that is being written. */
import { element, icon } from "./element.js";

export class Files {
  #items = [];
  #upload;
  #changed;

  /** `upload(file)` resolves to the artifact. */
  constructor(upload, changed) {
    this.#upload = upload;
    this.#changed = changed;
    this.node = element("ul", { className: "files", "aria-label": "Attached", hidden: true });
  }

  get isUploading() {
    return this.#items.some(({ state }) => state === "uploading");
  }

  /** Those that are there, as a message names them. */
  get ready() {
    return this.#items.filter(({ state }) => state === "ready");
  }

  async add(files) {
    for (const file of files) {
      const added = { name: file.name, state: "uploading", artifact: null, problem: "" };
      this.#items.push(added);
      this.#show();
      try {
        Object.assign(added, { artifact: await this.#upload(file), state: "ready" });
      } catch (problem) {
        Object.assign(added, { state: "failed", problem: problem.status === 403 ? "Files are not taken here." : problem.message });
      }
      this.#show();
    }
  }

  clear() {
    this.#items = [];
    this.#show();
  }

  #show() {
    this.node.hidden = this.#items.length === 0;
    this.node.replaceChildren(...this.#items.map((file) => {
      const remove = () => {
        this.#items = this.#items.filter((each) => each !== file);
        this.#show();
      };
      const said = { uploading: "uploading…", failed: file.problem }[file.state];
      return element("li", { className: file.state }, file.name, said && ` ${said}`,
        element("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: remove }, icon("close")));
    }));
    this.#changed();
  }
}
