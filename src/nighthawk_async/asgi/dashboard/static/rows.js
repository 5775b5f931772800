// Which nodes have a row, in which order: the newest root first, then what is below it as it began.

import { isActive } from "./states.js";
import { TOP } from "./store.js";

const FEW_ROOTS = 8;
const MANY_CHILDREN = 200;
const OPEN_KINDS = new Set(["request", "run", "function", "step", "group", "task"]);

export class Rows {
  #store;
  #filters;
  #chosen = new Map();
  list = [];
  places = new Map();
  matches = 0;

  constructor(store, filters) {
    this.#store = store;
    this.#filters = filters;
  }

  setExpanded(id, isExpanded) {
    this.#chosen.set(id, isExpanded);
  }

  isExpanded(node, depth) {
    const chosen = this.#chosen.get(node.id);
    if (chosen !== undefined) return chosen;
    const siblings = this.#store.childrenOf(TOP).length;
    if (depth === 0) return siblings <= FEW_ROOTS || isActive(node);
    return OPEN_KINDS.has(node.kind) && this.#store.childrenOf(node.id).length <= MANY_CHILDREN;
  }

  forgetChoices() {
    this.#chosen.clear();
  }

  // Opens everything above a node, so that it has a row.
  reveal(id) {
    let node = this.#store.get(id);
    while (node && node.parent_id !== null && (node = this.#store.get(node.parent_id))) {
      if (node.id !== TOP) this.#chosen.set(node.id, true);
    }
  }

  update() {
    for (const id of this.#chosen.keys()) if (!this.#store.get(id)) this.#chosen.delete(id);
    const shown = this.#filters.isActive ? this.#findShown() : null;
    const list = [];
    const shownChildren = (id) => {
      const children = this.#store.childrenOf(id);
      return shown ? children.filter((each) => shown.has(each)) : children;
    };
    const roots = shownChildren(TOP);
    const waiting = [];
    roots.forEach((id, place) => waiting.push([id, 0, roots.length - place, roots.length]));
    while (waiting.length) {
      const [id, depth, position, size] = waiting.pop();
      const node = this.#store.get(id);
      if (!node) continue;
      const children = shownChildren(id);
      const isExpanded = children.length > 0 && (shown ? this.#chosen.get(id) !== false : this.isExpanded(node, depth));
      list.push({ id, depth, position, size, isExpanded, hasChildren: children.length > 0, isBeside: shown?.get(id) === false });
      if (!isExpanded) continue;
      for (let place = children.length - 1; place >= 0; place -= 1) {
        waiting.push([children[place], depth + 1, place + 1, children.length]);
      }
    }
    this.list = list;
    this.places = new Map(list.map((row, place) => [row.id, place]));
  }

  // The nodes that are looked for, and those above them, which are shown beside.
  #findShown() {
    const shown = new Map();
    this.matches = 0;
    for (const node of this.#store.nodes.values()) {
      if (node.id === TOP || !this.#filters.matches(node)) continue;
      this.matches += 1;
      shown.set(node.id, true);
      let above = this.#store.get(node.parent_id);
      while (above && above.id !== TOP && !shown.has(above.id)) {
        shown.set(above.id, false);
        above = this.#store.get(above.parent_id);
      }
    }
    return shown;
  }
}
