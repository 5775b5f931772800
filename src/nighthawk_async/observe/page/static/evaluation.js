// The panel of evaluations: a matrix of cases and trials, and two evaluations side by side.

import { element, keepChildren, setAttribute, setText } from "./dom.js";
import { MARKS, casesOf, earlierOf, evaluationsIn, passRate, wordsOf } from "./evaluation_matrix.js";
import { clockTime, plural } from "./format.js";
import { TOP } from "./store.js";

const PAUSE = 1_000;
const MOST_ROWS = 200;
const NOTHING = "";
const SHOWN = {
  "all cases": () => true,
  "not all passed": ({ current }) => current && current.passed < current.trials.length,
  "better or worse": ({ change }) => change !== null,
};

export class EvaluationPanel {
  #panel;
  #button;
  #store;
  #onOpen;
  #evaluations = [];
  #isOld = false;
  #isFirst = true;
  #isWhole = false;
  #drawnAt = -PAUSE;
  #current = element("select", { attributes: { "aria-label": "Evaluation" } });
  #other = element("select", { attributes: { "aria-label": "Compared with" } });
  #shown = element("select", { attributes: { "aria-label": "Cases" } });
  #figures = element("span", { className: "quiet", attributes: { role: "status" } });
  #open = element("button", { className: "link", text: "Open", attributes: { type: "button", "aria-label": "Open the evaluation" } });
  #headings = element("tr");
  #body = element("tbody");
  #more = element("button", { attributes: { type: "button" } });

  constructor({ panel, button }, store, onOpen) {
    this.#panel = panel;
    this.#button = button;
    this.#store = store;
    this.#onOpen = onOpen;
    for (const name of Object.keys(SHOWN)) this.#shown.append(element("option", { text: name }));
    this.#open.addEventListener("click", () => onOpen(this.#current.value));
    this.#more.addEventListener("click", () => {
      this.#isWhole = true;
      this.#draw();
    });
    this.#current.addEventListener("change", () => {
      this.#compareWith(earlierOf(this.#evaluations, this.#find(this.#current.value)));
      this.#draw();
    });
    for (const each of [this.#other, this.#shown]) each.addEventListener("change", () => this.#draw());
    panel.append(
      element("div", { className: "evaluation-head" }, element("h2", { text: "Evaluation" }), this.#current, element("span", { text: "compared with" }), this.#other, this.#shown, this.#open, this.#figures),
      element("table", { className: "matrix" }, element("thead", {}, this.#headings), this.#body),
      this.#more,
      legend(),
    );
  }

  toggle() {
    if (!this.#evaluations.length) return;
    this.#panel.hidden = !this.#panel.hidden;
    this.#button.setAttribute("aria-expanded", String(!this.#panel.hidden));
    if (!this.#panel.hidden) this.#draw();
  }

  // The nodes have changed. Where there is nothing but evaluations, they are shown at once.
  update() {
    const known = new Set(this.#evaluations.map(({ id }) => id));
    this.#evaluations = evaluationsIn(this.#store);
    const isSame = this.#evaluations.length === known.size && this.#evaluations.every(({ id }) => known.has(id));
    if (!isSame) this.#offer(known);
    this.#button.hidden = !this.#evaluations.length;
    if (!this.#evaluations.length) this.#panel.hidden = true;
    else if (this.#isFirst) {
      this.#isFirst = false;
      if (this.#store.childrenOf(TOP).every((id) => this.#find(id))) this.toggle();
    }
    this.#isOld = true;
    this.tick();
  }

  // The matrix is drawn at most once a second.
  tick() {
    if (this.#isOld && !this.#panel.hidden && performance.now() - this.#drawnAt >= PAUSE) this.#draw();
  }

  // Both lists have all evaluations. The newest is chosen, unless somebody has chosen an earlier one.
  #offer(known) {
    const before = this.#current.value;
    const wasNewest = !known.size || this.#current.selectedIndex <= 0;
    const other = this.#other.value;
    const newestFirst = [...this.#evaluations].reverse();
    const options = () => newestFirst.map((node) => element("option", { text: titleOf(node), attributes: { value: node.id } }));
    this.#current.replaceChildren(...options());
    this.#other.replaceChildren(element("option", { text: "nothing", attributes: { value: NOTHING } }), ...options());
    if (!newestFirst.length) return;
    if (!wasNewest && this.#find(before)) this.#current.value = before;
    if (this.#current.value === before && this.#find(other)) this.#other.value = other;
    else this.#compareWith(earlierOf(this.#evaluations, this.#find(this.#current.value)));
  }

  #compareWith(evaluation) {
    this.#other.value = evaluation?.id ?? NOTHING;
  }

  #find(id) {
    return this.#evaluations.find((each) => each.id === id) ?? null;
  }

  #draw() {
    const current = this.#find(this.#current.value);
    if (!current) return;
    this.#isOld = false;
    this.#drawnAt = performance.now();
    const other = this.#find(this.#other.value);
    const cases = casesOf(this.#store, current, other);
    const chosen = cases.filter(SHOWN[this.#shown.value]);
    const rows = this.#isWhole ? chosen : chosen.slice(0, MOST_ROWS);
    setText(this.#figures, figuresOf(cases, other));
    const names = ["Case", "Trials", "Passed", ...(other ? ["Other", "Passed", "Change"] : [])];
    keepChildren(this.#headings, names.map((text, place) => ({ text, place })), {
      keyOf: ({ text, place }) => `${place} ${text}`,
      make: ({ text }) => element("th", { text, attributes: { scope: "col" } }),
      bring: () => {},
    });
    keepChildren(this.#body, rows, { keyOf: ({ name }) => name, make: () => this.#makeRow(), bring: (row, each) => this.#bringRow(row, each, other) });
    this.#more.hidden = rows.length === chosen.length;
    setText(this.#more, `Show all ${plural(chosen.length, "case")}`);
  }

  #makeRow() {
    const row = element("tr", {}, element("th", { attributes: { scope: "row" } }, element("button", { className: "link", attributes: { type: "button" } })));
    for (const className of ["trials", "number", "trials", "number", ""]) row.append(element("td", { className }));
    row.querySelector("button").addEventListener("click", () => this.#onOpen(row.dataset.node));
    return row;
  }

  #bringRow(row, { name, current, earlier, change, words }, other) {
    row.dataset.node = (current ?? earlier).id;
    const [title, trials, rate, otherTrials, otherRate, changed] = row.children;
    setText(title.firstChild, name);
    this.#bringSide(trials, rate, current);
    this.#bringSide(otherTrials, otherRate, earlier);
    setText(changed, words);
    setAttribute(changed, "data-change", change);
    for (const each of [otherTrials, otherRate, changed]) each.hidden = !other;
  }

  #bringSide(cell, rate, side) {
    setText(rate, side?.decided ? `${side.passed} of ${side.decided}` : "–");
    keepChildren(cell, side?.trials ?? [], {
      keyOf: ({ number, id }) => `${number} ${id}`,
      make: ({ id }) => (id ? element("button", { className: "trial", attributes: { type: "button" }, on: { click: () => this.#onOpen(id) } }) : element("span", { className: "trial" })),
      bring: (shown, { number, status }) => {
        const label = `trial ${number}: ${wordsOf(status)}`;
        setText(shown, MARKS[status]);
        setAttribute(shown, "data-status", status);
        setAttribute(shown, "title", label);
        setAttribute(shown, "aria-label", label);
      },
    });
  }
}

function titleOf(node) {
  const day = new Date(node.began_at * 1000).toLocaleDateString();
  return `${day} ${clockTime(node.began_at, false)}: ${node.evaluation.subject}`;
}

function figuresOf(cases, other) {
  const sides = cases.flatMap(({ current }) => current ?? []);
  const count = (name) => sides.reduce((sum, side) => sum + side[name], 0);
  const rate = passRate(cases);
  const decided = `${count("decided")} of ${plural(sides.reduce((sum, { trials }) => sum + trials.length, 0), "trial")} decided`;
  const parts = [rate === null ? decided : `pass rate ${rate.toFixed(3)}, ${decided}`];
  if (other) {
    const changes = (wanted) => cases.filter(({ change }) => change === wanted).length;
    parts.push(`${changes("better")} better, ${changes("worse")} worse`);
  }
  return parts.join("; ");
}

function legend() {
  const marks = Object.entries(MARKS).map(([status, mark]) =>
    element("span", {}, element("span", { className: "trial", text: mark, attributes: { "data-status": status } }), ` ${wordsOf(status)}`),
  );
  return element("p", { className: "legend" }, ...marks);
}
