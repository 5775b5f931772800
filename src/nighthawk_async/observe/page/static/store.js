// The nodes as the service tells of them. A node is replaced when it changes; its place is kept beside it.

import { isActive } from "./states.js";

export const TOP = "0";

export class Store {
  nodes = new Map();
  children = new Map();
  #parking = new Set();
  version = 0;

  reset() {
    this.nodes.clear();
    this.children.clear();
    this.#parking.clear();
    this.version += 1;
  }

  apply({ nodes = [], gone = [], kept = {} }) {
    for (const node of nodes) this.#put(node);
    for (const id of gone) this.#remove(id);
    for (const [parent, ids] of Object.entries(kept)) this.#keepOnly(parent, new Set(ids));
    this.version += 1;
  }

  get(id) {
    return this.nodes.get(id);
  }

  // Whether it was asked to wait, and has not come to it yet. Only this page knows.
  isParking(id) {
    return this.#parking.has(id);
  }

  setParking(id, isParking) {
    if (isParking) this.#parking.add(id);
    else this.#parking.delete(id);
    this.version += 1;
  }

  childrenOf(id) {
    return this.children.get(id) ?? [];
  }

  // The step that shares the row of its function; null for none, or where it is not there yet.
  sharedStepOf(node) {
    return this.nodes.get(node.step) ?? null;
  }

  rootOf(id) {
    let node = this.nodes.get(id);
    while (node && node.parent_id !== TOP && this.nodes.has(node.parent_id)) node = this.nodes.get(node.parent_id);
    return node;
  }

  #put(node) {
    if (!this.nodes.has(node.id) && node.parent_id !== null) {
      const siblings = this.children.get(node.parent_id);
      if (siblings) siblings.push(node.id);
      else this.children.set(node.parent_id, [node.id]);
    }
    this.nodes.set(node.id, node);
    if (node.state === "suspended" || !isActive(node)) this.#parking.delete(node.id);
  }

  #remove(id) {
    const node = this.nodes.get(id);
    if (!node) return;
    const siblings = this.childrenOf(node.parent_id);
    const place = siblings.indexOf(id);
    if (place >= 0) siblings.splice(place, 1);
    this.#forget(id);
  }

  #keepOnly(parent, ids) {
    for (const id of [...this.childrenOf(parent)]) if (!ids.has(id)) this.#remove(id);
  }

  #forget(id) {
    const waiting = [id];
    while (waiting.length) {
      const each = waiting.pop();
      for (const child of this.childrenOf(each)) waiting.push(child);
      this.nodes.delete(each);
      this.#parking.delete(each);
      this.children.delete(each);
    }
  }
}
