// The event stream format of the HTML standard, from chunks of text to events.

export class EventStreamParser {
  #rest = "";
  #data = [];
  #name = "";
  #lastId = "";

  // The events that are whole after a further chunk.
  feed(text) {
    const events = [];
    // A carriage return at the end may be the first half of a line end.
    const whole = this.#rest + text;
    const usable = whole.endsWith("\r") ? whole.length - 1 : whole.length;
    const lines = whole.slice(0, usable).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() + whole.slice(usable);
    for (const line of lines) {
      if (line) this.#takeField(line);
      else this.#finish(events);
    }
    return events;
  }

  #takeField(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.#lastId = value;
  }

  #finish(events) {
    if (this.#data.length) {
      events.push({ name: this.#name || "message", data: this.#data.join("\n"), id: this.#lastId });
    }
    this.#data = [];
    this.#name = "";
  }
}
