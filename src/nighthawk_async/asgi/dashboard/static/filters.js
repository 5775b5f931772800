// Which nodes are looked for.

export class Filters {
  text = "";
  kind = "";
  states = new Set();

  get isActive() {
    return Boolean(this.text || this.kind || this.states.size);
  }

  clear() {
    this.text = "";
    this.kind = "";
    this.states.clear();
  }

  matches(node) {
    if (this.kind && node.kind !== this.kind) return false;
    if (this.states.size && !this.states.has(node.state)) return false;
    return !this.text || searchedText(node).includes(this.text);
  }
}

const texts = new WeakMap();

function searchedText(node) {
  let text = texts.get(node);
  if (text === undefined) {
    const { name, kind, source = "", hint = "", error } = node;
    text = [name, kind, `#${node.id}`, source, hint, error?.type ?? "", error?.message ?? ""].join("\n").toLowerCase();
    texts.set(node, text);
  }
  return text;
}
