// The panel of the memory: people search its records, correct them, and erase them with a receipt.

import { askForText, askToConfirm } from "./dialogs.js";
import { element, setText } from "./dom.js";
import { plural } from "./format.js";
import { changeRecord, findRecords } from "./source.js";
import { getToken } from "./token.js";

const TYPING_PAUSE = 200;

export class MemoryPanel {
  #panel;
  #button;
  #actions;
  #notify;
  #timer = 0;
  #attempt = null;
  #field = element("input", { attributes: { type: "search", "aria-label": "Search the memory", placeholder: "Search the memory", autocomplete: "off", spellcheck: "false" } });
  #status = element("span", { className: "quiet", attributes: { role: "status" } });
  #receipt = element("p", { className: "quiet", attributes: { role: "status" } });
  #list = element("ul", { attributes: { "aria-label": "Records" } });

  constructor({ panel, button }, actions, notify) {
    this.#panel = panel;
    this.#button = button;
    this.#actions = actions;
    this.#notify = notify;
    this.#field.addEventListener("input", () => this.#searchAfter(TYPING_PAUSE));
    const head = element("div", { className: "memory-head", attributes: { role: "search" } }, element("h2", { text: "Memory" }), this.#field, this.#status);
    panel.append(head, this.#receipt, this.#list);
  }

  // Whether the service has a memory.
  offer(isThere) {
    this.#button.hidden = !isThere;
    if (!isThere && !this.#panel.hidden) this.toggle();
  }

  toggle() {
    if (this.#button.hidden && this.#panel.hidden) return;
    this.#panel.hidden = !this.#panel.hidden;
    this.#button.setAttribute("aria-expanded", String(!this.#panel.hidden));
    if (this.#panel.hidden) return this.forget();
    this.#field.focus();
    this.#searchAfter(0);
  }

  // Who has no token any more sees nothing of what was shown with it.
  forget() {
    this.#attempt?.abort();
    clearTimeout(this.#timer);
    this.#list.replaceChildren();
    for (const shown of [this.#status, this.#receipt]) setText(shown, "");
  }

  tokenChanged() {
    this.forget();
    if (!this.#panel.hidden) this.#searchAfter(0);
  }

  #searchAfter(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#search(), pause);
  }

  async #search() {
    this.#attempt?.abort();
    const attempt = (this.#attempt = new AbortController());
    try {
      const records = await findRecords(this.#field.value.trim(), attempt.signal);
      if (this.#attempt !== attempt || attempt.signal.aborted) return;
      this.#list.replaceChildren(...records.map((record) => this.#row(record)));
      setText(this.#status, plural(records.length, "record", "records"));
    } catch (error) {
      if (attempt.signal.aborted) return;
      this.#list.replaceChildren();
      setText(this.#status, error.status === 401 ? "The memory is shown to those who have the token." : error.message);
      if (error.status === 401 && !getToken() && !document.querySelector("dialog")) this.#actions.enterToken();
    }
  }

  #row(record) {
    const facts = [record.kind, ...record.tags, record.provenance, record.valid_until && `until ${record.valid_until}`, record.score && `score ${record.score}`];
    const row = element("li", {}, element("h3", { text: record.key }), element("p", { className: "quiet", text: facts.filter(Boolean).join(" · ") }), element("pre", { text: record.text }));
    if (!this.#actions.canAct) return row;
    const button = (text, act) => element("button", { text, attributes: { type: "button", "aria-label": `${text} ${record.key}` }, on: { click: () => act(record) } });
    const buttons = [button("Erase", (each) => this.#erase(each))];
    if (!record.key.startsWith("fact:")) buttons.unshift(button("Correct", (each) => this.#correct(each)));
    row.append(element("div", { className: "buttons" }, ...buttons));
    return row;
  }

  async #correct(record) {
    const isText = typeof record.value === "string";
    const text = isText ? "The record as it is from now on. The one before stays in the log." : "The record as it is from now on, as JSON. The one before stays in the log.";
    const given = await askForText({ title: `Correct “${record.key}”`, text, label: "Value", button: "Store", isLong: true, value: isText ? record.value : JSON.stringify(record.value, null, 2) });
    if (given === null) return;
    let value = given;
    try {
      if (!isText) value = JSON.parse(given);
    } catch {
      return this.#notify("That is no JSON; nothing was stored.", true);
    }
    await this.#change("correct", { key: record.key, id: record.id, value }, () => `“${record.key}” is corrected.`);
  }

  async #erase(record) {
    const text = `“${record.key}” and its earlier versions are deleted for good, for privacy. This cannot be undone.`;
    if (!(await askToConfirm({ title: "Erase?", text, button: "Erase it" }))) return;
    const left = "Until the file is written anew, its unused pages keep them.";
    const told = ({ receipt }) => `Receipt ${receipt.id}: ${plural(receipt.versions, "version", "versions")} and ${plural(receipt.vectors, "vector", "vectors")} erased at ${receipt.at}. ${receipt.is_purged ? "" : left}`.trim();
    await this.#change("erase", { key: record.key, id: record.id }, told);
  }

  async #change(action, body, told) {
    if (!getToken() && !(await this.#actions.enterToken())) return;
    try {
      setText(this.#receipt, told(await changeRecord(action, body)));
    } catch (error) {
      this.#notify(error.message, true);
      if (error.status === 401) await this.#actions.enterToken();
    }
    this.#field.focus();
    this.#searchAfter(0);
  }
}
