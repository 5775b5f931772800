// One row of the tree: made once, then brought up to date.

import { element, setAttribute, setClass, setText } from "./dom.js";
import { cost, duration, meaningOf, tokens } from "./format.js";
import { glyphOf, isActive, kindLabel } from "./states.js";
import { drawExtent } from "./waterfall.js";

const INDENT = 16;
const DEEPEST_INDENT = 14;

export function makeRow() {
  const parts = {
    twisty: element("span", { className: "twisty", attributes: { "aria-hidden": "true" } }),
    glyph: element("span", { className: "glyph", attributes: { "aria-hidden": "true" } }),
    kind: element("span", { className: "kind" }),
    title: element("span", { className: "title" }),
    badge: element("span", { className: "badge" }),
    hint: element("span", { className: "hint" }),
    state: element("span", { className: "state" }),
    duration: element("span", { className: "number" }),
    tokens: element("span", { className: "number dim" }),
    cost: element("span", { className: "number dim" }),
    span: element("span", { className: "span" }),
  };
  const name = element("span", { className: "name" }, parts.twisty, parts.glyph, parts.kind, parts.title, parts.badge, parts.hint);
  const track = element("span", { className: "track", attributes: { "aria-hidden": "true" } }, parts.span);
  const row = element("div", { attributes: { role: "treeitem" } }, name, parts.state, parts.duration, parts.tokens, parts.cost, track);
  return { row, name, parts };
}

// The row of a function and its step is named after the function, and does what the step does.
export function updateRow(made, { place, head, node, root, isSelected, isParking, failures, now }) {
  const { row, name, parts } = made;
  const state = isActive(head) ? node.state : head.state;
  setAttribute(row, "id", `row-${node.id}`);
  row.dataset.id = node.id;
  setClass(row, `row ${state}${place.depth ? "" : " root"}${place.isBeside ? " beside" : ""}`);
  setAttribute(row, "aria-level", place.depth + 1);
  setAttribute(row, "aria-posinset", place.position);
  setAttribute(row, "aria-setsize", place.size);
  setAttribute(row, "aria-expanded", place.hasChildren ? place.isExpanded : null);
  setAttribute(row, "aria-selected", isSelected);
  name.style.paddingLeft = `${Math.min(place.depth, DEEPEST_INDENT) * INDENT}px`;
  setText(parts.twisty, place.hasChildren ? (place.isExpanded ? "▾" : "▸") : "");
  setText(parts.glyph, glyphOf(state));
  setText(parts.kind, kindLabel(head.kind));
  setText(parts.title, head.name);
  setText(parts.hint, errorOf(head) || errorOf(node) || hintOf(head, node));
  setText(parts.badge, badgeOf(node, isParking, failures));
  parts.badge.classList.toggle("bad", failures > 0);
  parts.badge.hidden = !parts.badge.textContent;
  setText(parts.state, state);
  const end = head.ended_at ?? (isActive(head) ? now : head.began_at);
  setText(parts.duration, duration(end - head.began_at));
  showFigure(parts.tokens, tokens(head.subtree_usage));
  showFigure(parts.cost, cost(head.subtree_usage));
  drawExtent(parts.span, head, root ?? head, node.kind, now);
}

function showFigure(shown, text) {
  setText(shown, text);
  setAttribute(shown, "title", meaningOf(text));
}

// Where it runs, if that is a worker, and with what.
function hintOf(head, node) {
  const worker = head.worker ?? node.worker;
  const progress = head.progress ?? node.progress ?? "";
  return [progress, worker ? `on ${worker}` : "", node.hint ?? ""].filter(Boolean).join(", ");
}

// What ended it; empty when nothing did, or its state says all there is to say.
function errorOf({ error, state }) {
  if (!error || (state === "cancelled" && !error.message)) return "";
  return error.message ? `${error.type}: ${error.message}` : error.type;
}

function badgeOf(node, isParking, failures) {
  if (isParking) return "to be suspended";
  if (node.controls?.includes("answer")) return "asks";
  if (failures) return `${failures} failed below`;
  if (node.dropped_children) return `${node.dropped_children} dropped`;
  if (node.subtree_retries) return `${node.subtree_retries}× retried`;
  return node.read_as ? `read: ${node.read_as}` : "";
}
