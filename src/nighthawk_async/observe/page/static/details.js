// One node whole, as it goes on.

import { element, setClass, setText } from "./dom.js";
import { showButtons, showFacts } from "./facts.js";
import { QuestionForm, questionKey } from "./question_form.js";
import { connect } from "./source.js";
import { isActive } from "./states.js";
import { makeTable, showAttributes, showUsage, showValues } from "./tables.js";
import { TRANSCRIPT_EVENTS, TranscriptView } from "./transcript.js";

const STATES_OF_CONNECTION = {
  offline: "no connection, trying again",
  empty: "no connection, trying again",
  away: "the store of the runs cannot be read, trying again",
  locked: "a token is needed",
  gone: "kept no longer: this is how it was seen last",
  other: "the service was restarted: this is how it was seen last",
};

export class Details {
  #panel;
  #actions;
  #store;
  #now;
  #onOpen;
  #makeMenu;
  #connection = null;
  #node = null;
  #transcript = null;
  #parts = null;
  #form = null;
  #isToAnswer = false;
  id = null;

  constructor(panel, actions, store, { now, onOpen, makeMenu }) {
    this.#panel = panel;
    this.#actions = actions;
    this.#store = store;
    this.#now = now;
    this.#onOpen = onOpen;
    this.#makeMenu = makeMenu;
  }

  open(id, stream, onClose) {
    this.close();
    this.id = id;
    this.#transcript = new TranscriptView();
    this.#parts = this.#lay(onClose);
    const { head, status, facts, buttons, error, question, values, transcript, usage, attributes } = this.#parts;
    const tables = [values.section, transcript, usage.section, attributes.section];
    this.#panel.replaceChildren(head, status, facts, buttons, error, question, ...tables);
    for (const each of [error, ...tables]) each.hidden = true;
    this.#panel.scrollTop = 0;
    this.#connection = connect(
      `api/nodes/${encodeURIComponent(id)}/changes?stream=${encodeURIComponent(stream)}`,
      (name, data) => this.#take(name, data),
      (state) => this.#showConnection(state),
    );
  }

  close() {
    this.#connection?.close();
    this.#connection = this.#node = this.#form = this.id = null;
    this.#isToAnswer = false;
    this.#panel.replaceChildren();
  }

  retry() {
    this.#connection?.retry();
  }

  redraw() {
    if (this.#node) this.#draw();
  }

  // The field of what is asked gets the focus, as soon as it is there.
  focusAnswer() {
    this.#isToAnswer = !this.#form?.focus();
  }

  // The seconds of what still goes on, or may still be answered.
  tick() {
    if (!this.#node || !isActive(this.#node)) return;
    this.#showFacts();
    this.#form?.tick(this.#now());
  }

  #lay(onClose) {
    const close = element("button", { text: "✕", attributes: { type: "button", "aria-label": "Close details" }, on: { click: onClose } });
    return {
      head: element("div", { className: "head" }, element("h2"), this.#makeMenu(this.id), close),
      status: element("p", { className: "quiet", attributes: { role: "status" } }),
      facts: element("dl", { className: "facts" }),
      buttons: element("div", { className: "buttons" }),
      error: element("div", {}, element("b"), element("span")),
      question: element("div"),
      values: makeTable("values"),
      transcript: element("section", {}, element("h3", { text: "Transcript" }), this.#transcript.shown),
      usage: makeTable("usage"),
      attributes: makeTable("values"),
    };
  }

  #showConnection(state) {
    // A stream tells everything anew, also when it is opened again.
    if (state === "live") this.#transcript.begin();
    setText(this.#parts.status, STATES_OF_CONNECTION[state] ?? "");
  }

  #take(name, data) {
    const isAtEnd = this.#panel.scrollTop + this.#panel.clientHeight >= this.#panel.scrollHeight - 30;
    const isFollowing = isAtEnd && this.#panel.scrollTop > 0;
    if (name === "node") {
      this.#node = data;
      this.#transcript.expect(data.transcript_parts);
      this.#draw();
    } else if (TRANSCRIPT_EVENTS.has(name)) {
      this.#transcript.take(name, data);
    }
    this.#parts.transcript.hidden = this.#transcript.isEmpty;
    if (isFollowing) this.#panel.scrollTop = this.#panel.scrollHeight;
  }

  #draw() {
    const node = this.#node;
    const { head, buttons, error, values, usage, attributes } = this.#parts;
    const hadFocus = this.#panel.contains(document.activeElement);
    setText(head.firstChild, this.#title || "everything");
    this.#showFacts();
    showButtons(buttons, node, { canAct: this.#actions.canAct, isParking: this.#isParking, onAction: (name) => this.#act(name) });
    showError(error, node);
    this.#showQuestion(node);
    showValues(values, node);
    showUsage(usage, node);
    showAttributes(attributes, node);
    // What had the focus may have gone: the keys still have to reach the page from here.
    if (hadFocus && !this.#panel.contains(document.activeElement)) this.#panel.focus();
  }

  get #isParking() {
    return this.#store.isParking(this.#node.id);
  }

  #showFacts() {
    showFacts(this.#parts.facts, this.#node, { now: this.#now(), isParking: this.#isParking, partner: this.#partner, onOpen: this.#onOpen });
  }

  // A step is known by the function whose row it shares.
  get #title() {
    const { kind, name } = this.#node;
    return kind === "step" && this.#partner ? `${this.#partner.name} · ${name}` : name;
  }

  // The function of its only step, and the other way round.
  get #partner() {
    const known = this.#store.get(this.id);
    if (!known) return null;
    const above = this.#store.get(known.parent_id);
    return this.#store.sharedStepOf(known) ?? (above?.step === this.id ? above : null);
  }

  #act(name) {
    if (name === "cancel") this.#actions.cancel(this.#node);
    else if (name === "steer") this.#actions.steer(this.#node);
    else this.#actions.suspendOrResume(this.#node);
  }

  // Made anew only when it asks something else: what is typed stays.
  #showQuestion({ question }) {
    const key = question ? questionKey(question) : null;
    if (key !== (this.#form?.key ?? null)) {
      this.#form = question ? new QuestionForm(question, (body) => this.#actions.send(this.#node, "answer", body)) : null;
      this.#parts.question.replaceChildren(...(this.#form ? [this.#form.shown] : []));
    }
    this.#form?.update(question, this.#now());
    if (this.#isToAnswer) this.focusAnswer();
  }
}

function showError(shown, { error, state }) {
  shown.hidden = !error;
  if (!error) return;
  setClass(shown, `error ${state}`);
  setText(shown.firstChild, error.type);
  setText(shown.lastChild, error.message ? `: ${error.message}` : "");
}
