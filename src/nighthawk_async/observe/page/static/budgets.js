// What budgets that processes share through the store have left, in the bar at the top.

import { element, setAttribute, setText } from "./dom.js";
import { readBudgets } from "./source.js";

const PAUSE = 10_000;

export class Budgets {
  #list;
  #values = new Map();

  constructor(list) {
    this.#list = list;
    this.#update();
  }

  async #update() {
    const budgets = document.hidden ? [] : await readBudgets().catch(() => []);
    if (budgets === null) return; // this service shows no store
    for (const budget of budgets) this.#show(budget);
    setTimeout(() => this.#update(), PAUSE);
  }

  #show({ name, resource, limit, spent, remaining, window }) {
    const key = `${name} ${resource} ${window.split(" until ")[0]}`;
    if (!this.#values.has(key)) {
      const value = element("dd", { text: "–" });
      this.#list.append(element("div", { className: "wide" }, element("dt", { text: `${name}: ${resource} left` }), value));
      this.#values.set(key, value);
    }
    setText(this.#values.get(key), `${remaining} of ${limit}`);
    setAttribute(this.#values.get(key), "title", `${spent} spent in ${window}`);
  }
}
