// The evaluations of a tree: their cases and trials, alone or beside those of another one. Pure.

import { isActive } from "./states.js";

const DECIDED = new Set(["passed", "failed", "error"]);

// As in reports: see html_report.py.
export const MARKS = {
  passed: "✓",
  failed: "✕",
  error: "!",
  transport: "⇄",
  unscored: "?",
  not_run: "–",
  running: "●",
  missing: "·",
};

export function evaluationsIn(store) {
  return [...store.nodes.values()].filter((node) => node.evaluation?.subject !== undefined);
}

// The evaluation that one is compared with at first: the last one of the same subject before it.
export function earlierOf(evaluations, chosen) {
  const before = evaluations.slice(0, evaluations.indexOf(chosen));
  return before.findLast((each) => each.evaluation.subject === chosen.evaluation.subject) ?? null;
}

export function wordsOf(status) {
  return status === "missing" ? "not in the tree" : status.replace("_", " ");
}

// The cases of an evaluation, and those that only the other one has. Each has a side for both, or null.
export function casesOf(store, evaluation, other) {
  const earlier = new Map(other ? sidesOf(store, other).map((side) => [side.name, side]) : []);
  const cases = sidesOf(store, evaluation).map((current) => pair(current, earlier.get(current.name) ?? null));
  const names = new Set(cases.map(({ name }) => name));
  const gone = [...earlier.values()].filter(({ name }) => !names.has(name)).map((side) => pair(null, side));
  return [...cases, ...gone];
}

// The mean over cases, in which every case counts the same; null when no trial is decided.
export function passRate(cases) {
  const rates = cases.flatMap(({ current }) => (current?.decided ? [current.passed / current.decided] : []));
  return rates.length ? rates.reduce((one, other) => one + other) / rates.length : null;
}

function sidesOf(store, evaluation) {
  const count = Number(evaluation.evaluation.trials ?? 0);
  const found = store.childrenOf(evaluation.id).map((id) => store.get(id)).filter((node) => node?.kind === "group");
  return found.map((node) => {
    const trials = trialsOf(store, node, count);
    return {
      id: node.id,
      name: node.name,
      digest: node.evaluation?.digest ?? null,
      trials,
      decided: trials.filter(({ status }) => DECIDED.has(status)).length,
      passed: trials.filter(({ status }) => status === "passed").length,
    };
  });
}

function trialsOf(store, node, count) {
  const known = new Map();
  for (const id of store.childrenOf(node.id)) {
    const trial = store.get(id);
    const number = Number(/^trial (\d+)$/.exec(trial?.name ?? "")?.[1] ?? 0);
    if (number) known.set(number, { number, id, status: statusOf(trial) });
  }
  const numbers = new Set([...Array.from({ length: Math.min(count, 1_000) }, (_, place) => place + 1), ...known.keys()]);
  return [...numbers].map((number) => known.get(number) ?? { number, id: null, status: "missing" });
}

function statusOf(trial) {
  const status = trial.evaluation?.status;
  if (Object.hasOwn(MARKS, status)) return status;
  return isActive(trial) ? "running" : "not_run";
}

function pair(current, earlier) {
  return { name: (current ?? earlier).name, current, earlier, ...changeBetween(current, earlier) };
}

function changeBetween(current, earlier) {
  if (!current) return { change: null, words: "only in the other" };
  if (!earlier) return { change: null, words: "only here" };
  if (current.digest && earlier.digest && current.digest !== earlier.digest) return { change: null, words: "other inputs or expectation" };
  if (!current.decided || !earlier.decided) return { change: null, words: "not decided in both" };
  const difference = current.passed / current.decided - earlier.passed / earlier.decided;
  if (!difference) return { change: null, words: "= same" };
  return difference > 0
    ? { change: "better", words: `▲ better +${difference.toFixed(2)}` }
    : { change: "worse", words: `▼ worse ${difference.toFixed(2)}` };
}
