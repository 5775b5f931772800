// What is below each node: how many have failed by themselves, and whether everything has ended well.

import { isActive } from "./states.js";
import { TOP } from "./store.js";

const NOTHING = { failures: 0, hasFailed: false, isBusy: false, isAsking: false };

export class Subtrees {
  #store;
  #version = -1;
  #known = new Map();
  failures = [];

  constructor(store) {
    this.#store = store;
  }

  failuresBelow(id) {
    return this.#of(id).failures;
  }

  // Whether the node and everything below it has ended, and nothing of it has failed: see Digests in tree_rows.py.
  isQuiet(id) {
    const node = this.#store.get(id);
    return !node || !isOpen(node, this.#of(id));
  }

  // Whether something below has failed, or waits for an answer.
  isWorthALook(id) {
    const { hasFailed, isAsking } = this.#of(id);
    return hasFailed || isAsking;
  }

  // The next failure in the order of the tree, the newest root first; after the last, the first.
  failureAfter(id) {
    this.update();
    const order = this.#inOrder();
    const failed = new Set(this.failures);
    const place = order.indexOf(id);
    return [...order.slice(place + 1), ...order.slice(0, place + 1)].find((each) => failed.has(each)) ?? null;
  }

  update() {
    if (this.#version === this.#store.version) return;
    this.#version = this.#store.version;
    this.#known.clear();
    this.failures = [];
    // A node comes after the one above it, so in reverse every node is seen after all below it.
    const nodes = [...this.#store.nodes.values()].reverse();
    for (const node of nodes) if (node.id !== TOP) this.#add(node);
  }

  #add(node) {
    const below = this.#known.get(node.id) ?? NOTHING;
    const hasFailed = node.state === "failed";
    // A node above one that has failed fails with it, and is not counted.
    const isFailure = hasFailed && !below.isParentOfFailed;
    if (isFailure) this.failures.push(node.id);
    let above = this.#known.get(node.parent_id);
    if (!above) this.#known.set(node.parent_id, (above = { ...NOTHING, isParentOfFailed: false }));
    above.failures += below.failures + (isFailure ? 1 : 0);
    above.isParentOfFailed ||= hasFailed;
    above.hasFailed ||= hasFailed || below.hasFailed;
    above.isBusy ||= isOpen(node, below);
    above.isAsking ||= below.isAsking || (isActive(node) && node.kind === "question");
  }

  #of(id) {
    this.update();
    return this.#known.get(id) ?? NOTHING;
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

function isOpen(node, below) {
  return isActive(node) || node.state === "failed" || below.isBusy;
}
