// The form in which a question or a request for approval is answered. What was typed goes to the service as a
// text, which reads it as the question wants it: this language would round large numbers.

import { element, setText } from "./dom.js";
import { clockTime, duration } from "./format.js";

// What tells whether something else is asked.
export function questionKey({ type, prompt, attempt, error, digest, choices, role }) {
  return JSON.stringify([type, prompt, attempt, error, digest, choices, role]);
}

export class QuestionForm {
  shown = element("div", { className: "asking", attributes: { role: "group", "aria-label": "Answer" } });
  #counted = element("p", { className: "quiet" });
  #expiry = element("p", { className: "quiet" });
  #expiresAt = null;

  constructor(question, send) {
    this.key = questionKey(question);
    if (question.type === "approval") this.#fillApproval(question, send);
    else if (question.type === "remembered") this.#fillRemembered(question, send);
    else this.#fillQuestion(question, send);
  }

  // False when there is nothing to focus.
  focus() {
    this.shown.querySelector("textarea, select, button").focus();
    return true;
  }

  update(question, now) {
    if (question.type !== "approval" && question.type !== "remembered") return;
    this.#expiresAt = question.expires_at;
    if (question.type === "approval") this.#count(question);
    this.tick(now);
  }

  #count({ quorum, approvals, approvers }) {
    const counted = `${approvals.length} of ${quorum} approved${approvals.length ? `: ${approvals.join(", ")}` : ""}`;
    setText(this.#counted, counted + (approvers ? `; asked: ${approvers.join(", ")}` : ""));
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

  #fillApproval({ action, arguments: given, risks, digest, roles, role }, send) {
    this.#showAction(`Approve: ${action}`, given, risks);
    this.shown.append(this.#counted, this.#expiry);
    const reason = element("input", { attributes: { placeholder: "Why not (for a denial)", "aria-label": "Why not" } });
    const remember = element("input", { attributes: { type: "checkbox" } });
    const approve = button("Approve", "main", () =>
      send({ answer: "approve", digest, remember: remember.checked ? "run" : null }),
    );
    const deny = button("Deny", "danger", () => send({ answer: "deny", reason: reason.value }));
    const escalate = ([name, people]) => {
      const handOn = button(`Hand on to ${name}`, "", () =>
        send({ answer: "escalate", role: name, reason: reason.value }),
      );
      handOn.title = people.join(", ");
      return handOn;
    };
    const others = Object.entries(roles ?? {}).filter(([name]) => name !== role);
    const label = element("label", { className: "quiet" }, remember, " Equal calls of this run as well");
    this.shown.append(label, reason, buttons(approve, deny, ...others.map(escalate)));
  }

  // An approval that counts for equal calls of the run, and can be taken back.
  #fillRemembered({ action, arguments: given, risks, approvals }, send) {
    this.#showAction(`Approved for equal calls of the run: ${action}`, given, risks);
    this.shown.append(element("p", { className: "quiet", text: `by ${approvals.join(", ")}` }), this.#expiry);
    this.shown.append(buttons(button("Revoke", "danger", () => send({ answer: "revoke" }))));
  }

  #showAction(title, given, risks) {
    this.shown.append(element("div", { className: "prompt", text: title }));
    this.shown.append(element("pre", { className: "code", text: given }));
    if (!risks?.length) return;
    this.shown.append(element("p", { className: "wrong", text: `Risks of the command: ${risks.join(", ")}` }));
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
