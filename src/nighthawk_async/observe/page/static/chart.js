// Tokens, cost and latency over time, per function or per model, drawn as SVG.

import { FIGURES, binsOf, seriesOf } from "./chart_series.js";
import { showFigures, showTotals } from "./chart_table.js";
import { element, setText } from "./dom.js";
import { clockTime, cost, count, latency } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 170;
const MARGIN = { left: 58, right: 10, top: 8, bottom: 20 };
const PAUSE = 1_000;
const LABEL_WIDTH = 86;
const NAMES = {
  tokens: ["Tokens", "tokens", (value) => count(Math.round(value))],
  cost: ["Cost", "cost", (value) => cost({ cost: value }) || "$0"],
  latency: ["Latency", "median latency", latency],
};

export class Chart {
  #panel;
  #store;
  #now;
  #drawing = shape("svg", { class: "drawing", role: "img" });
  #empty = element("p", { className: "quiet" });
  #totals = element("table", { className: "totals-table" });
  #figures = element("table");
  #figure = choice("Figure", Object.entries(NAMES).map(([name, [text]]) => [name, text]));
  #by = choice("Per", [["function", "per function"], ["model", "per model"]]);
  #version = -1;
  #drawnAt = 0;

  constructor(panel, store, now) {
    this.#panel = panel;
    this.#store = store;
    this.#now = now;
    const same = element("details", { className: "figures" }, element("summary", { text: "The same figures as a table" }), element("div", {}, this.#figures));
    panel.append(
      element("div", { className: "chart-head" }, element("h2", { text: "Over time" }), this.#figure, this.#by),
      element("div", { className: "chart-body" }, element("div", { className: "plot" }, this.#drawing, this.#empty, same), element("div", { className: "scroll" }, this.#totals)),
    );
    for (const each of [this.#figure, this.#by]) each.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.#isShown && this.draw()).observe(panel);
  }

  toggle() {
    this.#panel.hidden = !this.#panel.hidden;
    if (this.#isShown) this.draw();
    return this.#isShown;
  }

  // What is new is drawn once a second.
  tick() {
    const isOld = this.#version !== this.#store.version && performance.now() - this.#drawnAt >= PAUSE;
    if (this.#isShown && isOld) this.draw();
  }

  draw() {
    this.#version = this.#store.version;
    this.#drawnAt = performance.now();
    const figure = this.#figure.value;
    const by = this.#by.value;
    const series = seriesOf(this.#store, { by, figure, now: this.#now() });
    const bins = binsOf(series, figure);
    const [, name, format] = NAMES[figure];
    const caption = `${name} per ${by} over time`;
    const isEmpty = !bins.length;
    setText(this.#empty, isEmpty ? `No ${name} yet.` : "");
    this.#drawing.classList.toggle("none", isEmpty);
    this.#panel.classList.toggle("empty-chart", isEmpty);
    this.#drawing.setAttribute("aria-label", `${caption}; a table has the same figures`);
    this.#drawing.replaceChildren(...(isEmpty ? [] : this.#shapes(series, bins, figure)));
    showTotals(this.#totals, series, by === "model" ? "Model" : "Function");
    this.#totals.hidden = !series.length;
    showFigures(this.#figures, series, bins, { caption, format });
  }

  get #isShown() {
    return !this.#panel.hidden;
  }

  #shapes(series, bins, figure) {
    const width = Math.max(240, this.#drawing.parentElement.clientWidth);
    this.#drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.#drawing.setAttribute("width", width);
    this.#drawing.setAttribute("height", HEIGHT);
    const isStacked = figure !== "latency";
    const format = NAMES[figure][2];
    const heights = bins.map(({ values }) => (isStacked ? total(values) : Math.max(0, ...values.map((each) => each ?? 0))));
    const most = niceMost(Math.max(...heights), FIGURES[figure] === FIGURES.tokens);
    const plot = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
    const at = {
      x: (place) => MARGIN.left + (place / bins.length) * plot.width,
      y: (value) => MARGIN.top + plot.height * (1 - value / most),
    };
    const draw = isStacked ? bars : lines;
    return [...axes(bins, most, at, width, format), ...draw(series, bins, at, format)];
  }
}

function axes(bins, most, at, width, format) {
  const made = [0, most / 2, most].flatMap((value) => [
    shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at.y(value), y2: at.y(value) }),
    shape("text", { class: "tick", x: MARGIN.left - 6, y: at.y(value) + 4, "text-anchor": "end" }, value ? format(value) : "0"),
  ]);
  const isExact = bins[0].until - bins[0].from < 1;
  const every = Math.max(1, Math.ceil((bins.length * LABEL_WIDTH) / (width - MARGIN.left)));
  for (let place = 0; place + every / 2 <= bins.length; place += every) {
    made.push(shape("text", { class: "tick", x: at.x(place), y: HEIGHT - 4 }, clockTime(bins[place].from, isExact)));
  }
  return made;
}

function bars(series, bins, at, format) {
  const wide = Math.max(1, at.x(1) - at.x(0) - 2);
  return bins.flatMap(({ from, values }, place) => {
    let below = 0;
    return values.flatMap((value, number) => {
      if (value === null) return [];
      const top = at.y(below + value);
      const height = Math.max(at.y(below) - top, 0.5);
      below += value;
      const bar = shape("rect", { class: `series-${number}`, x: at.x(place) + 1, y: top, width: wide, height });
      bar.append(shape("title", {}, `${series[number].name}, ${clockTime(from, false)}: ${format(value)}`));
      return [bar];
    });
  });
}

function lines(series, bins, at, format) {
  return series.flatMap(({ name }, number) => {
    const points = bins.flatMap(({ from, values }, place) =>
      values[number] === null ? [] : [{ x: at.x(place + 0.5), y: at.y(values[number]), from, value: values[number] }],
    );
    const path = points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    const dots = points.map(({ x, y, from, value }) => {
      const dot = shape("circle", { class: `series-${number}`, cx: x, cy: y, r: 3.5 });
      dot.append(shape("title", {}, `${name}, ${clockTime(from, false)}: ${format(value)}`));
      return dot;
    });
    return points.length > 1 ? [shape("polyline", { class: `series-${number}`, points: path }), ...dots] : dots;
  });
}

function total(values) {
  return values.reduce((whole, each) => whole + (each ?? 0), 0);
}

// The end of the axis, such that its half is a short number, too.
function niceMost(value, isWhole) {
  const power = 10 ** Math.floor(Math.log10(value));
  const most = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= value) * power;
  return isWhole ? Math.max(2, most) : most;
}

function choice(label, options) {
  const made = element("select", { attributes: { "aria-label": label } });
  for (const [value, text] of options) made.append(element("option", { text, attributes: { value } }));
  return made;
}

function shape(tag, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}
