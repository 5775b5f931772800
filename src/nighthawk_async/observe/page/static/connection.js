// A stream of events that is opened again when it ends too early, and paused while nobody looks.

import { EventStreamParser } from "./event_stream.js";
import { authorization } from "./token.js";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;

// What the problems of the service mean. Everything else comes from something in between, and may pass.
const STATES_OF_PROBLEMS = new Map([
  ["bad-token", "locked"],
  ["no-such-node", "gone"],
  ["nothing-recorded", "empty"],
  ["other-tree", "other"],
  ["store-away", "away"],
]);

const PASSING_STATES = new Set(["offline", "empty", "away"]);

function stateOf(problem) {
  const name = String(problem?.type).split(":").at(-1);
  return STATES_OF_PROBLEMS.get(name) ?? "offline";
}

export class Connection {
  #path;
  #onEvent;
  #onState;
  #lastId = "";
  #wait = FIRST_WAIT;
  #timer = 0;
  #attempt = null;
  #isOver = false;
  #onVisibility = () => (document.hidden ? this.#pause() : this.#open());

  // onState gets "live", "offline", "empty" (nothing is recorded yet), "away" (the store of the runs cannot be
  // read), "locked" (a token is needed), or for the last time "gone" (the node), "other" (the tree is another
  // one) or "over".
  constructor(path, onEvent, onState = () => {}) {
    this.#path = path;
    this.#onEvent = onEvent;
    this.#onState = onState;
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#open();
  }

  close() {
    this.#isOver = true;
    this.#pause();
    document.removeEventListener("visibilitychange", this.#onVisibility);
  }

  retry() {
    this.#pause();
    this.#open();
  }

  // Everything is told anew.
  restart() {
    this.#lastId = "";
    this.retry();
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#attempt?.abort();
    this.#attempt = null;
  }

  async #open() {
    if (this.#isOver || this.#attempt || document.hidden) return;
    clearTimeout(this.#timer);
    const attempt = (this.#attempt = new AbortController());
    const began = performance.now();
    let state = "offline";
    try {
      state = await this.#read(attempt);
    } catch {
      // The service is away, or the stream broke off: the next attempt tells.
    }
    if (this.#attempt !== attempt) return;
    this.#attempt = null;
    if (state === "again") {
      // One that ends at once was ended by something in between, which would be asked without a pause.
      if (performance.now() - began > FIRST_WAIT) this.#open();
      else this.#openLater();
      return;
    }
    this.#onState(state);
    if (PASSING_STATES.has(state)) this.#openLater();
    else if (state !== "locked") this.close();
  }

  #openLater() {
    this.#timer = setTimeout(() => this.#open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  async #read(attempt) {
    const headers = { ...authorization() };
    if (this.#lastId) headers["Last-Event-ID"] = this.#lastId;
    const response = await fetch(this.#path, { headers, signal: attempt.signal, cache: "no-store" });
    if (!response.ok) return stateOf(await response.json().catch(() => ({})));
    this.#onState("live");
    const parser = new EventStreamParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "again"; // streams are of limited length, so that servers can shut down
      for (const event of parser.feed(value)) {
        this.#wait = FIRST_WAIT;
        if (event.name === "end") return "over";
        this.#onEvent(event.name, JSON.parse(event.data));
        this.#lastId = event.id;
      }
    }
  }
}
