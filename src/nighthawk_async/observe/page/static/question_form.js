// The form in which a question or a request for approval is answered. What was typed goes to the service as a
// text, which reads it as the question wants it: this language would round large numbers.

import { element, setText } from "./dom.js";
import { clockTime, duration } from "./format.js";

// What tells whether something else is asked.
export function questionKey({ prompt, attempt, error, digest, choices }) {
  return JSON.stringify([prompt, attempt, error, digest, choices]);
}

export class QuestionForm {
  shown = element("div", { className: "asking", attributes: { role: "group", "aria-label": "Answer" } });
  #counted = element("p", { className: "quiet" });
  #expiry = element("p", { className: "quiet" });
  #expiresAt = null;

  constructor(question, send) {
    this.key = questionKey(question);
    if (question.type === "approval") this.#fillApproval(question, send);
    else this.#fillQuestion(question, send);
  }

  // False when there is nothing to focus.
  focus() {
    this.shown.querySelector("textarea, select, button").focus();
    return true;
  }

  update(question, now) {
    if (question.type !== "approval") return;
    const { quorum, approvals, approvers } = question;
    const counted = `${approvals.length} of ${quorum} approved${approvals.length ? `: ${approvals.join(", ")}` : ""}`;
    setText(this.#counted, counted + (approvers ? `; asked: ${approvers.join(", ")}` : ""));
    this.#expiresAt = question.expires_at;
    this.tick(now);
  }

  tick(now) {
    if (this.#expiresAt === null) return;
    const left = Math.max(0, Math.round(this.#expiresAt - now));
    setText(this.#expiry, `until ${clockTime(this.#expiresAt, false)}, ${duration(left)} left`);
  }

  #fillQuestion(question, send) {
    const { prompt, type_name: typeName, choices, error, attempt, has_default: hasDefault } = question;
    this.shown.append(element("div", { className: "prompt", text: prompt }));
    if (error) this.shown.append(element("div", { className: "wrong", text: `Attempt ${attempt}: ${error}` }));
    const field = choices ? makeChoices(choices) : makeText(typeName);
    const answer = () => send(choices ? { choice: Number(field.value) } : { text: field.value });
    const made = [button("Answer", "main", answer)];
    if (hasDefault) made.push(button(defaultLabel(question.default), "", () => send({ default: true })));
    this.shown.append(field, buttons(...made));
  }

  #fillApproval({ action, arguments: given, digest }, send) {
    this.shown.append(element("div", { className: "prompt", text: `Approve: ${action}` }));
    this.shown.append(element("pre", { className: "code", text: given }), this.#counted, this.#expiry);
    const reason = element("input", { attributes: { placeholder: "Why not (for a denial)", "aria-label": "Why not" } });
    const approve = button("Approve", "main", () => send({ answer: "approve", digest }));
    const deny = button("Deny", "danger", () => send({ answer: "deny", reason: reason.value }));
    this.shown.append(reason, buttons(approve, deny));
  }
}

function defaultLabel(text) {
  if (!text) return "Take the default";
  return `Take the default: ${text.length > 80 ? `${text.slice(0, 79)}…` : text}`;
}

function makeChoices(choices) {
  const field = element("select", { attributes: { "aria-label": "Answer" } });
  choices.forEach((text, place) => field.append(element("option", { text, attributes: { value: String(place) } })));
  return field;
}

function makeText(typeName) {
  const placeholder = typeName === "str" ? "" : typeName;
  return element("textarea", { attributes: { rows: "2", "aria-label": "Answer", placeholder } });
}

function button(text, className, click) {
  return element("button", { text, className, attributes: { type: "button" }, on: { click } });
}

function buttons(...made) {
  return element("div", { className: "buttons" }, ...made);
}
