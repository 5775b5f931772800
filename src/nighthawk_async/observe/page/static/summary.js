// What the bars at the top say: totals, states with their numbers, who waits for an answer.

import { element, setAttribute, setText } from "./dom.js";
import { cost, count, meaningOf, plural, tokenCount } from "./format.js";
import { STATES, glyphOf } from "./states.js";
import { TOP } from "./store.js";

export class Summary {
  #totals;
  #asked;
  #chips = new Map();
  #values = new Map();
  firstAsked = null;

  constructor({ totals, states, asked, onState }) {
    this.#totals = totals;
    this.#asked = asked;
    for (const state of STATES) {
      const number = element("span", { text: "0" });
      const chip = element(
        "button",
        { className: state, attributes: { type: "button", "aria-pressed": "false", title: state }, on: { click: () => onState(state) } },
        element("span", { className: "glyph", text: glyphOf(state), attributes: { "aria-hidden": "true" } }),
        element("span", { className: "label", text: ` ${state} ` }),
        number,
      );
      states.append(chip);
      this.#chips.set(state, { chip, number });
    }
    for (const name of ["nodes", "tokens in", "out", "cost"]) {
      const value = element("dd", { text: "–" });
      this.#totals.append(element("div", { className: name === "nodes" ? "wide" : "" }, element("dt", { text: name }), value));
      this.#values.set(name, value);
    }
  }

  // Failed are those that have failed by themselves, as everywhere on the page; see subtrees.js.
  update(store, filters, failures) {
    const numbers = new Map();
    let asked = 0;
    this.firstAsked = null;
    for (const node of store.nodes.values()) {
      if (node.id === TOP) continue;
      numbers.set(node.state, (numbers.get(node.state) ?? 0) + 1);
      if (node.controls?.includes("answer")) {
        asked += 1;
        this.firstAsked ??= node.id;
      }
    }
    numbers.set("failed", failures);
    for (const [state, { chip, number }] of this.#chips) {
      setText(number, count(numbers.get(state) ?? 0));
      chip.classList.toggle("none", !numbers.get(state));
      chip.setAttribute("aria-pressed", String(filters.states.has(state)));
    }
    this.#asked.hidden = !asked;
    setText(this.#asked, `${plural(asked, "question")} waiting`);
    this.#updateTotals(store);
  }

  #updateTotals(store) {
    const usage = store.get(TOP)?.subtree_usage;
    this.#show("nodes", count(Math.max(0, store.nodes.size - 1)));
    this.#show("tokens in", tokenCount(usage, "input_tokens"));
    this.#show("out", tokenCount(usage, "output_tokens"));
    this.#show("cost", cost(usage) || "–");
  }

  #show(name, text) {
    const value = this.#values.get(name);
    setText(value, text);
    setAttribute(value, "title", meaningOf(text));
  }
}
