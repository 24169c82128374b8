/** What a page's own storage keeps of a conversation: its session, by the key of the connection. */
export class Memory {
  #name;
  #value = null;

  constructor(key) {
    this.#name = `aes.chat.${key}`;
    try {
      this.#value = localStorage.getItem(this.#name);
    } catch {
      // A page may have no storage, such as in a sandboxed frame: the conversation ends with it.
    }
  }

  get session() {
    return this.#value;
  }

  keep(session) {
    this.#value = session;
    try {
      if (session) localStorage.setItem(this.#name, session);
      else localStorage.removeItem(this.#name);
    } catch {
      // As above, or it is full.
    }
  }
}
