// Which nodes have a row, in which order: the newest root first, then what is below it as it began.
// A function and its only step share a row, which is the row of the step: the service says which do.

import { isActive } from "./states.js";
import { TOP } from "./store.js";

const MANY_CHILDREN = 200;
const OPEN_KINDS = new Set(["request", "run", "function", "step", "group", "task"]);

export class Rows {
  #store;
  #filters;
  #subtrees;
  #chosen = new Map();
  #chosenInSearch = new Map();
  list = [];
  places = new Map();
  matches = 0;

  constructor(store, filters, subtrees) {
    this.#store = store;
    this.#filters = filters;
    this.#subtrees = subtrees;
  }

  of(id) {
    return this.list[this.places.get(id)];
  }

  // What somebody opens or closes stays so. While they search, that holds for the search alone.
  setExpanded(id, isExpanded) {
    (this.#filters.isActive ? this.#chosenInSearch : this.#chosen).set(id, isExpanded);
  }

  forgetChoices() {
    this.#chosen.clear();
    this.#chosenInSearch.clear();
  }

  // Something else is looked for: the way to each match is open.
  searchChanged() {
    this.#chosenInSearch.clear();
  }

  // Opens everything above a node, so that it has a row.
  reveal(id) {
    let node = this.#store.get(id);
    while (node && node.parent_id !== null && (node = this.#store.get(node.parent_id))) {
      if (node.id !== TOP) this.#chosen.set(node.id, true);
    }
  }

  // Where somebody looks, nothing closes by itself.
  keepOpen(id) {
    this.reveal(id);
    const row = this.of(id);
    if (row?.isExpanded && !this.#filters.isActive) this.#chosen.set(row.id, true);
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
    roots.forEach((id, place) => waiting.push([id, 0, roots.length - place, roots.length, roots.length === 1]));
    while (waiting.length) {
      const [headId, depth, position, size, isOnWay] = waiting.pop();
      const head = this.#store.get(headId);
      if (!head) continue;
      const id = this.#store.sharedStepOf(head)?.id ?? headId;
      const children = shownChildren(id);
      const isExpanded = children.length > 0 && this.#isExpanded(head, id, depth, isOnWay, shown);
      const isBeside = shown !== null && shown.get(headId) !== true && shown.get(id) !== true;
      list.push({ id, headId, depth, position, size, isExpanded, hasChildren: children.length > 0, isBeside });
      if (!isExpanded) continue;
      const isOnlyWay = children.length === 1 && (isOnWay || this.#chosen.get(id) === true);
      for (let place = children.length - 1; place >= 0; place -= 1) {
        waiting.push([children[place], depth + 1, place + 1, children.length, isOnlyWay]);
      }
    }
    this.list = list;
    this.places = new Map(list.flatMap((row, place) => [[row.headId, place], [row.id, place]]));
  }

  // What has ended well is closed, but for what leads to nothing else: an only root, and only children below it.
  #isExpanded(head, id, depth, isOnWay, shown) {
    if (shown) return this.#chosenInSearch.get(id) ?? true;
    const chosen = this.#chosen.get(id);
    if (chosen !== undefined) return chosen;
    const isQuiet = this.#subtrees.isQuiet(head.id);
    const isLong = this.#store.childrenOf(id).length > MANY_CHILDREN;
    if (isQuiet) return isOnWay && (depth === 0 || !isLong);
    if (depth === 0) return isActive(head) || !isLong;
    return !isLong && (OPEN_KINDS.has(head.kind) || this.#subtrees.isWorthALook(id));
  }

  // The nodes that are looked for, and those above them, which are shown beside.
  #findShown() {
    const shown = new Map();
    this.matches = 0;
    for (const node of this.#store.nodes.values()) {
      if (node.id === TOP || !this.#filters.matches(node)) continue;
      const above = this.#store.get(node.parent_id);
      // Two that share a row are one match.
      if (!(above?.step === node.id && shown.get(above.id))) this.matches += 1;
      shown.set(node.id, true);
      for (let each = above; each && each.id !== TOP && !shown.has(each.id); each = this.#store.get(each.parent_id)) {
        shown.set(each.id, false);
      }
    }
    return shown;
  }
}
