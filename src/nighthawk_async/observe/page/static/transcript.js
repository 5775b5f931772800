// What was said in a node, as it comes. The service tells what is added and what is left out; whoever asks
// again is told everything anew, and what is there already stays as it is.

import { element, setText } from "./dom.js";

const LABELS = {
  text: "model",
  reasoning: "reasoning",
  tool_call: "tool call",
  tool_result: "tool result",
  message: "message to the model",
  note: "note",
};

export const TRANSCRIPT_EVENTS = new Set([...Object.keys(LABELS), "cut"]);

export class TranscriptView {
  shown = element("div", { className: "transcript" });
  #parts = [];
  #isBeginning = false;

  // Everything is going to be told anew.
  begin() {
    this.#isBeginning = true;
    for (const part of this.#parts) part.isOld = true;
  }

  // How many parts there are where everything is told anew.
  expect(number) {
    if (!this.#isBeginning) return;
    this.#isBeginning = false;
    for (const { row } of this.#parts.splice(number)) row.remove();
  }

  take(name, data) {
    if (name === "cut") this.#cut(data);
    else this.#add(name, data);
  }

  get isEmpty() {
    return !this.#parts.length;
  }

  #add(kind, { part, key, is_cut: isCut, text }) {
    let shown = this.#parts[part];
    if (shown?.isOld) {
      if (shown.kind === kind && shown.key === key && shown.isCut === isCut && text.startsWith(shown.text.data)) {
        shown.isOld = false;
        text = text.slice(shown.text.data.length);
      } else {
        const made = makePart(kind, key);
        shown.row.replaceWith(made.row);
        shown = this.#parts[part] = made;
      }
    } else if (!shown) {
      shown = makePart(kind, key);
      this.#parts.push(shown);
      this.shown.append(shown.row);
    }
    if (text) shown.text.appendData(text);
    if (isCut) markCut(shown);
  }

  #cut({ part, parts, characters }) {
    for (const { row } of this.#parts.splice(part, parts)) row.remove();
    const first = this.#parts[part];
    if (!first) return;
    // Characters are counted as Unicode has them, not in the units of this language.
    const left = [...first.text.data].slice(characters).join("");
    first.text.data = left;
    markCut(first);
  }
}

function makePart(kind, key) {
  const text = document.createTextNode("");
  const name = LABELS[kind] ?? kind;
  const label = element("div", { className: "label", text: key ? `${name} · ${key}` : name });
  const row = element("div", { className: `part ${kind}` }, label, element("pre", {}, text));
  return { row, label, text, kind, key, isCut: false, isOld: false };
}

function markCut(shown) {
  if (shown.isCut) return;
  shown.isCut = true;
  setText(shown.label, `… left out · ${shown.label.textContent}`);
}
