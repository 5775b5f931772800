// What a file holds: the same as a service tells, once.

const NO_USAGE = {};
const EMPTY = {
  inputs: {},
  outputs: {},
  attributes: {},
  usage: NO_USAGE,
  subtree_usage: NO_USAGE,
  controls: [],
  transcript: [],
};

const data = document.getElementById("recording");

export const recorded = data ? JSON.parse(data.textContent) : null;

export class RecordedConnection {
  #isOver = false;

  constructor(path, onEvent, onState = () => {}) {
    const id = /^api\/nodes\/(\d+)\//.exec(path)?.[1] ?? null;
    queueMicrotask(() => {
      if (this.#isOver) return;
      onState(id === null || recorded.details[id] ? "file" : "gone");
      if (id === null) tellTree(onEvent);
      else if (recorded.details[id]) tellNode({ ...EMPTY, ...recorded.details[id] }, onEvent);
    });
  }

  close() {
    this.#isOver = true;
  }

  retry() {}

  restart() {}
}

function tellTree(onEvent) {
  onEvent("reset", recorded.greeting);
  onEvent("nodes", { nodes: recorded.nodes, gone: [] });
}

function tellNode({ transcript, ...node }, onEvent) {
  onEvent("node", { ...node, transcript_parts: transcript.length });
  transcript.forEach(({ kind, ...part }, place) => onEvent(kind, { part: place, ...part }));
}

// As the service searches: see search.py.
export function recordedNodesWith(text) {
  const [, name, value] = /^([\p{L}\p{N}_.-]*)=(.+)$/su.exec(text) ?? [];
  const start = value?.replace(/^"+/, "");
  return Object.entries(recorded.details)
    .filter(([, node]) => {
      const values = [...Object.entries(node.inputs ?? {}), ...Object.entries(node.outputs ?? {})]
        .map(([each, shown]) => [each.toLowerCase(), shown === '"<hidden>"' ? "" : shown.toLowerCase()]);
      return (
        values.some(([each, shown]) => `${each}: ${shown}`.includes(text)) ||
        Boolean(node.error?.message.toLowerCase().includes(text)) ||
        (Boolean(start) && values.some(([each, shown]) => ["", each].includes(name) && shown.replace(/^"/, "").startsWith(start)))
      );
    })
    .map(([id]) => id);
}
