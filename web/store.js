/** A value that components subscribe to. */
import { useEffect, useState } from "preact/hooks";

export class Store {
  #value;
  #followers = new Set();

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const follower of [...this.#followers]) follower(value);
  }

  update(change) {
    this.set(change(this.#value));
  }

  follow(follower) {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

export function useStore(store) {
  const [value, setValue] = useState(store.value);
  useEffect(() => {
    setValue(() => store.value);
    return store.follow((next) => setValue(() => next));
  }, [store]);
  return value;
}
