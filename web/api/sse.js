/** Server-sent events out of pieces of text that end anywhere. */
export class SseParser {
  #rest = "";
  #data = [];
  #event = "";
  #id = null;

  /** The events that are complete by now: `{id, event, data}`. One without data carries an id alone. */
  feed(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    const events = [];
    for (const line of lines) {
      if (line === "") this.#end(events);
      else if (!line.startsWith(":")) this.#take(line);
    }
    return events;
  }

  #take(line) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id") this.#id = value;
  }

  #end(events) {
    if (this.#data.length || this.#id !== null) {
      events.push({ id: this.#id, event: this.#event || "message", data: this.#data.length ? this.#data.join("\n") : null });
    }
    this.#data = [];
    this.#event = "";
    this.#id = null;
  }
}
