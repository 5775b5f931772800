// The tables of the details: what a node works with and what came of it, what it consumed, what else is known.

import { element, keepChildren, setAttribute, setClass, setText } from "./dom.js";
import { cost, count, meaningOf, tokenCount } from "./format.js";

const TOKEN_ROWS = [
  ["input tokens", "input_tokens"],
  ["read from cache", "cache_read_tokens"],
  ["output tokens", "output_tokens"],
  ["reasoning", "reasoning_tokens"],
  ["web searches", "web_searches"],
  ["code executions", "code_executions"],
  ["file searches", "file_searches"],
];

export function makeTable(className) {
  const title = element("h3");
  const headings = element("tr");
  const body = element("tbody");
  const table = element("table", { className }, element("thead", {}, headings), body);
  return { section: element("section", {}, title, table), title, headings, body };
}

export function showValues(table, node) {
  const names = [...new Set([...Object.keys(node.inputs), ...Object.keys(node.outputs)])];
  const isStep = node.kind === "step";
  const [title, before, after] = isStep ? ["Bindings", "before", "after"] : ["Inputs and outputs", "input", "output"];
  const rows = names.map((name) => {
    const isChanged = Object.hasOwn(node.outputs, name) && valueOf(node.inputs, name) !== node.outputs[name];
    return [{ text: name }, valueCell(node.inputs, name), valueCell(node.outputs, name, isChanged ? "changed" : "")];
  });
  showTable(table, title, ["name", before, after], rows);
}

export function showUsage(table, node) {
  const whole = node.subtree_usage;
  const isNothing = !whole.requests && !whole.input_tokens && !whole.output_tokens && !whole.cached_requests;
  const rows = whole.requests ? [usageRow("requests", count(node.usage.requests), count(whole.requests))] : [];
  if (whole.cached_requests) {
    rows.push(usageRow("cached requests", count(node.usage.cached_requests), count(whole.cached_requests)));
  }
  for (const [label, name] of TOKEN_ROWS) {
    if (whole[name]) rows.push(usageRow(label, tokenCount(node.usage, name), tokenCount(whole, name)));
  }
  rows.push(usageRow("cost", cost(node.usage) || "–", cost(whole) || "–"));
  if (whole.unpriced_requests) {
    rows.push(usageRow("requests without a price", String(node.usage.unpriced_requests), String(whole.unpriced_requests)));
  }
  showTable(table, "Tokens and cost", ["", "own", "with all below"], isNothing ? [] : rows, "number");
}

export function showAttributes(table, node) {
  const shown = Object.entries(node.attributes).filter(([name]) => !name.startsWith("nighthawk.dashboard."));
  const rows = shown.map(([name, value]) => [{ text: name }, { text: String(value) }]);
  showTable(table, "Attributes", [], rows);
}

function usageRow(label, own, whole) {
  const cells = [own, whole].map((text) => ({ text, className: "number", title: meaningOf(text) }));
  return [{ text: label }, ...cells];
}

function valueOf(values, name) {
  return Object.hasOwn(values, name) ? values[name] : null;
}

function valueCell(values, name, className = "") {
  const value = valueOf(values, name);
  return value === null ? { text: "–", className: "quiet" } : { text: value, className };
}

// Rows are known by the text of their first cell.
function showTable({ section, title, headings, body }, name, columns, rows, headingClass = "") {
  section.hidden = !rows.length;
  setText(title, name);
  keepChildren(headings, columns, {
    keyOf: (text) => text,
    make: (text) => element("th", { text, className: text === columns[0] ? "" : headingClass, attributes: { scope: "col" } }),
    bring: () => {},
  });
  keepChildren(body, rows, {
    keyOf: ([first]) => first.text,
    make: (cells) => element("tr", {}, ...cells.map((_, place) => makeCell(place))),
    bring: (row, cells) => cells.forEach((cell, place) => showCell(row.children[place], cell)),
  });
}

function makeCell(place) {
  return place ? element("td", {}, element("div")) : element("th", { attributes: { scope: "row" } }, element("div"));
}

function showCell(shown, { text, className = "", title = null }) {
  setClass(shown, className);
  setAttribute(shown, "title", title);
  setText(shown.firstChild, text);
}
