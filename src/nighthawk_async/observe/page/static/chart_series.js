// What was used, and how long it took, over time: per function or per model. Pure.

import { isActive } from "./states.js";
import { TOP } from "./store.js";

export const OUTSIDE = "outside functions";
const OTHERS = "all others";
const MOST_SERIES = 6;
const MOST_BINS = 48;
const FEWEST_BINS = 12;
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
const STEPS = [
  ...[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
];

export const FIGURES = {
  tokens: (point) => point.input + point.output,
  cost: (point) => point.cost,
  latency: (point) => point.seconds,
};

// The points of a chart, in its series: those with most of the figure first, the rest together.
export function seriesOf(store, { by, figure, now }) {
  const points = by === "model" ? modelPoints(store, now) : functionPoints(store, now);
  const named = new Map();
  for (const point of points) {
    if (!named.has(point.name)) named.set(point.name, []);
    named.get(point.name).push(point);
  }
  const valueOf = FIGURES[figure];
  const sum = (each) => each.reduce((whole, point) => whole + (valueOf(point) ?? 0), 0);
  const order = [...named].map(([name, each]) => ({ name, points: each, value: sum(each) }));
  order.sort((one, other) => other.value - one.value || (one.name < other.name ? -1 : 1));
  const rest = order.splice(MOST_SERIES);
  if (rest.length) order.push({ name: OTHERS, points: rest.flatMap((each) => each.points) });
  return order.map(({ name, points: each }) => ({ name, points: each, ...totalsOf(each) }));
}

// The columns of a chart: each series has a value in each of them, or none.
export function binsOf(series, figure) {
  const valueOf = FIGURES[figure];
  const shown = series.map(({ points }) => points.filter((point) => hasValue(valueOf(point))));
  const times = shown.flat().map((point) => point.at);
  if (!times.length) return [];
  const first = times.reduce((one, other) => Math.min(one, other));
  const last = times.reduce((one, other) => Math.max(one, other));
  const step = stepOf(last - first);
  let from = Math.floor(first / step);
  let count = Math.floor(last / step) - from + 1;
  if (count < FEWEST_BINS) {
    from -= Math.floor((FEWEST_BINS - count) / 2);
    count = FEWEST_BINS;
  }
  const bins = Array.from({ length: count }, (_, place) => ({
    from: (from + place) * step,
    until: (from + place + 1) * step,
    values: series.map(() => []),
  }));
  shown.forEach((points, place) => {
    for (const point of points) bins[Math.floor(point.at / step) - from].values[place].push(valueOf(point));
  });
  const join = figure === "latency" ? median : (values) => values.reduce((one, other) => one + other, 0);
  return bins.map((bin) => ({ ...bin, values: bin.values.map((values) => (values.length ? join(values) : null)) }));
}

export function median(values) {
  if (!values.length) return null;
  const order = [...values].sort((one, other) => one - other);
  const middle = order.length >> 1;
  return order.length % 2 ? order[middle] : (order[middle - 1] + order[middle]) / 2;
}

function hasValue(value) {
  return value !== null && value > 0;
}

function stepOf(seconds) {
  const fits = (step) => seconds / step < MOST_BINS - 1;
  return STEPS.find(fits) ?? Math.ceil(seconds / (MOST_BINS - 1) / DAY) * DAY;
}

function totalsOf(points) {
  const seconds = points.flatMap((point) => point.seconds ?? []);
  const whole = { calls: 0, input_tokens: 0, output_tokens: 0, cost: 0, unpriced_requests: 0, is_complete: true };
  for (const point of points) {
    whole.calls += point.calls;
    whole.input_tokens += point.input;
    whole.output_tokens += point.output;
    whole.cost += point.cost;
    whole.unpriced_requests += point.unpriced;
    whole.is_complete &&= point.isComplete;
  }
  return { usage: whole, median: median(seconds), slowest: seconds.reduce((one, other) => Math.max(one, other), 0) };
}

function modelPoints(store, now) {
  const points = [];
  for (const node of store.nodes.values()) {
    if (node.id === TOP) continue;
    const isRequest = node.kind === "model_request";
    if (node.usage_by_model) {
      for (const [name, usage] of Object.entries(node.usage_by_model)) {
        points.push(pointOf(node, name, usage, now, { calls: usage?.requests ?? 0 }));
      }
    } else if (isRequest || node.usage) {
      points.push(pointOf(node, node.name, node.usage, now, { calls: isRequest ? 1 : (node.usage.requests ?? 0), isTimed: isRequest }));
    }
  }
  return points;
}

// What is used counts for the function nearest above.
function functionPoints(store, now) {
  const names = new Map();
  const points = [];
  for (const node of store.nodes.values()) {
    if (node.id === TOP) continue;
    const isFunction = node.kind === "function";
    const name = isFunction ? node.name : (names.get(node.parent_id) ?? OUTSIDE);
    names.set(node.id, name);
    if (isFunction || node.usage) points.push(pointOf(node, name, node.usage, now, { calls: isFunction ? 1 : 0, isTimed: isFunction }));
  }
  return points;
}

function pointOf(node, name, usage, now, { calls, isTimed = false }) {
  const hasEnded = !isActive(node) && node.ended_at !== undefined;
  return {
    name,
    calls,
    at: hasEnded ? node.ended_at : now,
    seconds: isTimed && hasEnded ? node.ended_at - node.began_at : null,
    input: usage?.input_tokens ?? 0,
    output: usage?.output_tokens ?? 0,
    cost: Number(usage?.cost ?? 0),
    unpriced: usage?.unpriced_requests ?? 0,
    isComplete: usage?.is_complete !== false,
  };
}
