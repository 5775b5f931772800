// Nodes that have failed by themselves, and how many of them are below each node.

import { TOP } from "./store.js";

export class Failures {
  #store;
  #version = -1;
  #below = new Map();
  list = [];

  constructor(store) {
    this.#store = store;
  }

  below(id) {
    this.update();
    return this.#below.get(id) ?? 0;
  }

  // The next one in the order of the tree, the newest root first; after the last, the first.
  after(id) {
    this.update();
    const order = this.#inOrder();
    const failed = new Set(this.list);
    const place = order.indexOf(id);
    return [...order.slice(place + 1), ...order.slice(0, place + 1)].find((each) => failed.has(each)) ?? null;
  }

  update() {
    if (this.#version === this.#store.version) return;
    this.#version = this.#store.version;
    this.#below.clear();
    this.list = [];
    for (const node of this.#store.nodes.values()) {
      if (node.id === TOP || !this.#hasFailedItself(node)) continue;
      this.list.push(node.id);
      for (let above = this.#store.get(node.parent_id); above; above = this.#store.get(above.parent_id)) {
        this.#below.set(above.id, (this.#below.get(above.id) ?? 0) + 1);
      }
    }
  }

  // A node above one that has failed fails with it, and is not counted.
  #hasFailedItself(node) {
    return node.state === "failed" && !this.#store.childrenOf(node.id).some((id) => this.#store.get(id)?.state === "failed");
  }

  #inOrder() {
    const order = [];
    const waiting = [...this.#store.childrenOf(TOP)];
    while (waiting.length) {
      const id = waiting.pop();
      order.push(id);
      waiting.push(...[...this.#store.childrenOf(id)].reverse());
    }
    return order;
  }
}
