// The form in which a question or a request for approval is answered.

import { element } from "./dom.js";

export function makeQuestionForm(question, send) {
  const form = element("div", { className: "asking", attributes: { role: "group", "aria-label": "Answer" } });
  if (question.type === "approval") fillApproval(form, question, send);
  else fillQuestion(form, question, send);
  return form;
}

function fillQuestion(form, { prompt, schema, error, attempt }, send) {
  form.append(element("div", { className: "prompt", text: prompt }));
  if (error) form.append(element("div", { className: "wrong", text: `Attempt ${attempt}: ${error}` }));
  const field = makeField(schema);
  const answer = () => send({ answer: valueOf(field, schema) });
  form.append(field, buttons(button("Answer", "main", answer)));
}

function fillApproval(form, question, send) {
  const { action, arguments: given, quorum, approvals, approvers, digest } = question;
  form.append(element("div", { className: "prompt", text: `Approve: ${action}` }));
  form.append(element("pre", { className: "code", text: given }));
  const counted = `${approvals.length} of ${quorum} approved${approvals.length ? `: ${approvals.join(", ")}` : ""}`;
  const asked = approvers ? `; asked: ${approvers.join(", ")}` : "";
  form.append(element("p", { className: "quiet", text: counted + asked }));
  const reason = element("input", { attributes: { placeholder: "Why not (for a denial)", "aria-label": "Why not" } });
  const approve = button("Approve", "main", () => send({ answer: "approve", digest }));
  const deny = button("Deny", "danger", () => send({ answer: "deny", reason: reason.value }));
  form.append(reason, buttons(approve, deny));
}

function makeField(schema) {
  const choices = schema?.enum ?? (schema?.type === "boolean" ? [true, false] : null);
  if (!choices) return element("textarea", { attributes: { rows: "2", "aria-label": "Answer" } });
  const field = element("select", { attributes: { "aria-label": "Answer" } });
  for (const choice of choices) {
    field.append(element("option", { text: String(choice), attributes: { value: JSON.stringify(choice) } }));
  }
  return field;
}

// A text where a text is asked for; elsewhere what it says in JSON, or the text when it says nothing there.
function valueOf(field, schema) {
  if (field instanceof HTMLTextAreaElement && schema?.type === "string") return field.value;
  try {
    return JSON.parse(field.value);
  } catch {
    return field.value;
  }
}

function button(text, className, click) {
  return element("button", { text, className, attributes: { type: "button" }, on: { click } });
}

function buttons(...made) {
  return element("div", { className: "buttons" }, ...made);
}
