// Asks the service which nodes hold a text in the values that the page has only the beginnings of.

import { findNodes } from "./source.js";

const TYPING_PAUSE = 200;
const SHORTEST_PAUSE = 1_000;

export class Search {
  #text = "";
  #stream = null;
  #onFound;
  #timer = 0;
  #attempt = null;

  constructor(onFound) {
    this.#onFound = onFound;
  }

  // The text is another one.
  ask(text, stream) {
    this.#attempt?.abort();
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#text = /^#\d*$/.test(text) ? "" : text;
    this.#stream = stream;
    if (this.#text) this.#askAfter(TYPING_PAUSE);
    else this.#onFound([]);
  }

  // The nodes have changed.
  again() {
    if (this.#text && !this.#timer) this.#askAfter(SHORTEST_PAUSE);
  }

  #askAfter(pause) {
    this.#timer = setTimeout(() => this.#fetch(), pause);
  }

  async #fetch() {
    this.#attempt?.abort();
    const attempt = (this.#attempt = new AbortController());
    try {
      const nodes = await findNodes(this.#text, this.#stream ?? "", attempt.signal);
      if (nodes) this.#onFound(nodes);
    } catch {
      // The next change asks again; the connection tells that the service is away.
    }
    if (this.#attempt === attempt) this.#timer = 0;
  }
}
