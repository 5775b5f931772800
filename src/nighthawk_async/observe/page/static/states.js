// States and kinds: what they are called and how they look.

export const STATES = ["waiting", "running", "suspended", "completed", "raised", "failed", "cancelled"];

const ACTIVE = new Set(["waiting", "running", "suspended"]);

const GLYPHS = {
  waiting: "○",
  running: "●",
  suspended: "‖",
  completed: "✓",
  raised: "!",
  failed: "✕",
  cancelled: "−",
};

const KINDS = {
  request: "request",
  run: "run",
  function: "function",
  step: "step",
  model_request: "model",
  tool_call: "tool",
  group: "group",
  task: "task",
  actor: "actor",
  pool: "pool",
  job: "job",
  question: "question",
  resource: "resource",
};

export const KIND_NAMES = Object.keys(KINDS);

export function isActive(node) {
  return ACTIVE.has(node.state);
}

export function glyphOf(state) {
  return GLYPHS[state] ?? "?";
}

export function kindLabel(kind) {
  return KINDS[kind] ?? kind;
}
