// One node whole, as it goes on.

import { Connection } from "./connection.js";
import { element } from "./dom.js";
import { clockTime, cost, count, duration } from "./format.js";
import { makeQuestionForm } from "./question_form.js";
import { glyphOf, isActive, kindLabel } from "./states.js";
import { TRANSCRIPT_EVENTS, TranscriptView } from "./transcript.js";

const USAGE_ROWS = [
  ["requests", "requests"],
  ["input tokens", "input_tokens"],
  ["read from cache", "cache_read_tokens"],
  ["output tokens", "output_tokens"],
  ["reasoning", "reasoning_tokens"],
];

export class Details {
  #panel;
  #actions;
  #now;
  #connection = null;
  #node = null;
  #transcript = null;
  #parts = null;
  #questionKey = null;
  #isStale = false;

  constructor(panel, actions, now) {
    this.#panel = panel;
    this.#actions = actions;
    this.#now = now;
  }

  get node() {
    return this.#node;
  }

  open(id, onClose) {
    this.#connection?.close();
    this.#node = null;
    this.#transcript = new TranscriptView();
    this.#questionKey = null;
    this.#parts = this.#lay(onClose);
    this.#panel.replaceChildren(...Object.values(this.#parts));
    this.#panel.scrollTop = 0;
    this.#connection = new Connection(
      `api/nodes/${encodeURIComponent(id)}/changes`,
      (name, data) => this.#take(name, data),
      (state) => state === "live" && (this.#isStale = true),
    );
  }

  close() {
    this.#connection?.close();
    this.#connection = null;
    this.#node = null;
    this.#panel.replaceChildren();
  }

  redraw() {
    if (this.#node) this.#draw();
  }

  // The seconds of what still goes on.
  tick() {
    const shown = this.#panel.querySelector("[data-duration]");
    if (shown && this.#node && isActive(this.#node)) {
      shown.textContent = duration(this.#now() - this.#node.began_at);
    }
  }

  #lay(onClose) {
    const title = element("h2");
    const close = element("button", { text: "✕", attributes: { type: "button", "aria-label": "Close details" }, on: { click: onClose } });
    return {
      head: element("div", { className: "head" }, title, close),
      facts: element("dl", { className: "facts" }),
      buttons: element("div", { className: "buttons" }),
      error: element("div"),
      question: element("div"),
      values: element("div"),
      transcript: element("section", {}, element("h3", { text: "Transcript" }), this.#transcript.shown),
      usage: element("div"),
      attributes: element("div"),
    };
  }

  // A stream tells everything anew, also when it is opened again.
  #begin() {
    const scrolled = this.#panel.scrollTop;
    this.#isStale = false;
    this.#transcript.clear();
    this.#parts.transcript.hidden = true;
    requestAnimationFrame(() => (this.#panel.scrollTop = scrolled));
  }

  #take(name, data) {
    if (this.#isStale) this.#begin();
    const isAtEnd = this.#panel.scrollTop + this.#panel.clientHeight >= this.#panel.scrollHeight - 30;
    const isFollowing = isAtEnd && this.#panel.scrollTop > 0;
    if (name === "node") {
      this.#node = data;
      this.#draw();
    } else if (TRANSCRIPT_EVENTS.has(name)) {
      this.#transcript.take(name, data);
      this.#parts.transcript.hidden = this.#transcript.isEmpty;
    }
    if (isFollowing) this.#panel.scrollTop = this.#panel.scrollHeight;
  }

  #draw() {
    const node = this.#node;
    const { head, facts, buttons, error, values, usage, attributes } = this.#parts;
    head.querySelector("h2").textContent = node.name || "everything";
    facts.replaceChildren(...this.#facts(node));
    buttons.replaceChildren(...this.#buttons(node));
    error.replaceChildren(...errorBox(node));
    this.#drawQuestion(node);
    values.replaceChildren(...valuesTable(node));
    usage.replaceChildren(...usageTable(node));
    attributes.replaceChildren(...attributesTable(node));
  }

  #facts(node) {
    const state = element("dd", { className: `state ${node.state}` });
    state.append(element("span", { className: "glyph", text: glyphOf(node.state), attributes: { "aria-hidden": "true" } }), node.state);
    const lasted = element("dd", {
      text: duration((node.ended_at ?? this.#now()) - node.began_at),
      attributes: { "data-duration": "" },
    });
    const rows = [
      ["kind", element("dd", { text: `${kindLabel(node.kind)}, node ${node.id}` })],
      ["state", state],
      ["began", element("dd", { text: clockTime(node.began_at) })],
      ["duration", lasted],
    ];
    if (node.source) rows.push(["source", element("dd", { className: "code", text: node.source })]);
    if (node.retries) rows.push(["retries", element("dd", { text: String(node.retries) })]);
    if (node.dropped_children) rows.push(["dropped", element("dd", { text: `${node.dropped_children} children, kept no longer` })]);
    return rows.flatMap(([name, value]) => [element("dt", { text: name }), value]);
  }

  #buttons(node) {
    if (!node.controls.length) return [];
    if (!this.#actions.canAct) return [element("span", { className: "quiet", text: "Read-only: no token is configured." })];
    const known = {
      cancel: ["Cancel", "danger", () => this.#actions.cancel(node)],
      steer: ["Steer", "", () => this.#actions.steer(node)],
      suspend: ["Suspend", "", () => this.#actions.suspendOrResume(node)],
      resume: ["Resume", "", () => this.#actions.suspendOrResume(node)],
    };
    return node.controls
      .filter((name) => known[name])
      .map((name) => {
        const [text, className, click] = known[name];
        return element("button", { text, className, attributes: { type: "button" }, on: { click } });
      });
  }

  // Made anew only when it asks something else: what is typed stays.
  #drawQuestion(node) {
    const key = node.question ? JSON.stringify([node.question.prompt, node.question.attempt, node.question.digest, node.question.approvals]) : null;
    if (key === this.#questionKey) return;
    this.#questionKey = key;
    const shown = node.question ? [makeQuestionForm(node.question, (body) => this.#actions.send(node, "answer", body))] : [];
    this.#parts.question.replaceChildren(...shown);
  }
}

function errorBox(node) {
  if (!node.error) return [];
  const { type, message } = node.error;
  return [element("div", { className: `error ${node.state}` }, element("b", { text: type }), message ? `: ${message}` : "")];
}

function valuesTable(node) {
  const names = [...new Set([...Object.keys(node.inputs), ...Object.keys(node.outputs)])];
  if (!names.length) return [];
  const isStep = node.kind === "step";
  const [title, before, after] = isStep ? ["Bindings", "before", "after"] : ["Inputs and outputs", "input", "output"];
  const table = element("table", { className: "values" });
  table.append(headings(["name", before, after]));
  for (const name of names) {
    const isChanged = name in node.outputs && node.inputs[name] !== node.outputs[name];
    table.append(
      element(
        "tr",
        {},
        element("td", { text: name }),
        valueCell(node.inputs, name, ""),
        valueCell(node.outputs, name, isChanged ? "changed" : ""),
      ),
    );
  }
  return [element("h3", { text: title }), table];
}

function valueCell(values, name, className) {
  if (!(name in values)) return element("td", { className: "quiet", text: "–" });
  return element("td", { className }, element("div", { text: values[name] }));
}

function usageTable(node) {
  const whole = node.subtree_usage;
  if (!whole.requests && !whole.input_tokens && !whole.output_tokens) return [];
  const table = element("table", { className: "usage" });
  table.append(headings(["", "own", "with all below"], "number"));
  for (const [label, name] of USAGE_ROWS) {
    if (whole[name]) table.append(usageRow(label, count(node.usage[name]), count(whole[name])));
  }
  table.append(usageRow("cost", cost(node.usage) || "–", cost(whole) || "–"));
  if (whole.unpriced_requests) {
    table.append(usageRow("requests without a price", String(node.usage.unpriced_requests), String(whole.unpriced_requests)));
  }
  return [element("h3", { text: "Tokens and cost" }), table];
}

function usageRow(label, own, whole) {
  const cells = [own, whole].map((text) => element("td", { className: "number", text }));
  return element("tr", {}, element("th", { text: label, attributes: { scope: "row" } }), ...cells);
}

function attributesTable(node) {
  const shown = Object.entries(node.attributes).filter(([name]) => !name.startsWith("nighthawk.dashboard."));
  if (!shown.length) return [];
  const table = element("table", { className: "values" });
  for (const [name, value] of shown) {
    table.append(
      element("tr", {}, element("td", { text: name }), element("td", {}, element("div", { text: String(value) }))),
    );
  }
  return [element("h3", { text: "Attributes" }), table];
}

function headings(names, className = "") {
  const cells = names.map((text, place) => element("th", { text, className: place ? className : "", attributes: { scope: "col" } }));
  return element("tr", {}, ...cells);
}
