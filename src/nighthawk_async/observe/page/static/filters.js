// Which nodes are looked for.

export class Filters {
  text = "";
  // What the service has found besides: it knows the values whole, the page only their beginnings.
  found = new Set();
  kind = "";
  states = new Set();

  get isActive() {
    return Boolean(this.text || this.kind || this.states.size);
  }

  clear() {
    this.text = "";
    this.found.clear();
    this.kind = "";
    this.states.clear();
  }

  matches(node) {
    if (this.kind && node.kind !== this.kind) return false;
    if (this.states.size && !this.states.has(node.state)) return false;
    if (/^#\d+$/.test(this.text)) return this.text === `#${node.id}`;
    return !this.text || this.found.has(node.id) || searchedText(node).includes(this.text);
  }
}

const texts = new WeakMap();

function searchedText(node) {
  let text = texts.get(node);
  if (text === undefined) {
    const { name, kind, source = "", hint = "", worker = "", error } = node;
    text = [name, kind, source, hint, worker, error?.type ?? "", error?.message ?? ""].join("\n").toLowerCase();
    texts.set(node, text);
  }
  return text;
}
