// The tables of the chart: the whole of each series, which is also its key, and the same figures as the chart.

import { element } from "./dom.js";
import { clockTime, cost, latency, meaningOf, tokenCount } from "./format.js";

export function showTotals(table, series, label) {
  const headings = [label, "Calls", "Tokens in", "Tokens out", "Cost", "Median", "Slowest"];
  const rows = series.map(({ name, usage, median, slowest }, place) => [
    element("th", { attributes: { scope: "row", title: name } }, swatch(place), element("span", { text: name })),
    cell(String(usage.calls)),
    cell(tokenCount(usage, "input_tokens")),
    cell(tokenCount(usage, "output_tokens")),
    cell(cost(usage) || "–"),
    cell(median === null ? "–" : latency(median)),
    cell(median === null ? "–" : latency(slowest)),
  ]);
  fill(table, "Totals", headings, rows);
}

export function showFigures(table, series, bins, { caption, format }) {
  const shown = bins.filter(({ values }) => values.some((value) => value !== null));
  const rows = shown.map(({ from, until, values }) => [
    element("th", { text: clockTime(from, until - from < 1), attributes: { scope: "row" } }),
    ...values.map((value) => cell(value === null ? "–" : format(value))),
  ]);
  fill(table, caption, ["From", ...series.map(({ name }) => name)], rows);
}

function fill(table, caption, headings, rows) {
  const head = element("tr", {}, ...headings.map((text) => element("th", { text, attributes: { scope: "col" } })));
  table.replaceChildren(
    element("caption", { text: caption }),
    element("thead", {}, head),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells))),
  );
}

function cell(text) {
  const meaning = meaningOf(text);
  return element("td", { text, attributes: meaning ? { title: meaning } : {} });
}

function swatch(place) {
  return element("span", { className: `swatch series-${place}`, attributes: { "aria-hidden": "true" } });
}
