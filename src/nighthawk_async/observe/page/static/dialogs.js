// Questions of the page itself. Each resolves to what was entered, or to null when it was closed.

import { byId, element } from "./dom.js";
import { MARKS } from "./format.js";

const LONG_HINT = "Ctrl+Enter sends it, Enter begins a new line.";

const endings = new Set();

// Closes those that are about a node, when the nodes are no longer those that were looked at.
export function closeDialogsAboutNodes() {
  for (const end of [...endings]) end(null);
}

export function askForText({ title, text, label, button, isSecret = false, isLong = false, isAboutNode = false, isBad = false, value = "" }) {
  const field = isLong
    ? element("textarea", { attributes: { "aria-label": label } })
    : element("input", {
        attributes: { "aria-label": label, type: isSecret ? "password" : "text", autocomplete: "off" },
      });
  field.value = value;
  const content = isLong ? [field, element("p", { className: "quiet", text: LONG_HINT })] : [field];
  return show({ title, text, content, button, isAboutNode, isBad, valueOf: () => field.value.trim() || null });
}

export function askToConfirm({ title, text, button }) {
  return show({ title, text, content: [], button, isAboutNode: true, isDanger: true, valueOf: () => true });
}

export function showKeys(keys) {
  const content = [listOf(keys), element("h2", { text: "Signs of tokens and costs" }), listOf(MARKS)];
  return show({ title: "Keyboard", text: "", content, button: null, valueOf: () => null });
}

function listOf(items) {
  const list = element("dl");
  for (const [key, what] of items) {
    const names = key.split(" ").flatMap((each) => [element("kbd", { text: each }), " "]);
    list.append(element("dt", {}, ...names), element("dd", { text: what }));
  }
  return list;
}

function show({ title, text, content, button, isAboutNode = false, isDanger = false, isBad = false, valueOf }) {
  const before = document.activeElement;
  return new Promise((resolve) => {
    const dialog = element("dialog", { attributes: { "aria-label": title } });
    const end = (value) => {
      endings.delete(end);
      dialog.remove();
      (before?.isConnected && before !== document.body ? before : byId("tree")).focus();
      resolve(value);
    };
    if (isAboutNode) endings.add(end);
    const accept = () => end(valueOf());
    dialog.append(element("h2", { text: title }));
    if (text) dialog.append(element("p", isBad ? { text, className: "wrong", attributes: { role: "alert" } } : { text }));
    dialog.append(...content);
    const close = element("button", { text: button ? "Back" : "Close", attributes: { type: "button" }, on: { click: () => end(null) } });
    const buttons = element("div", { className: "buttons" }, close);
    if (button) {
      const className = isDanger ? "danger" : "main";
      buttons.append(element("button", { className, text: button, attributes: { type: "button" }, on: { click: accept } }));
    }
    dialog.append(buttons);
    dialog.addEventListener("cancel", () => end(null));
    dialog.addEventListener("keydown", (event) => {
      event.stopPropagation();
      const isField = event.target instanceof HTMLInputElement;
      const isSent = event.key === "Enter" && (isField || event.ctrlKey || event.metaKey);
      if (!isSent || !button) return;
      event.preventDefault(); // the key would press what gets the focus back
      accept();
    });
    document.body.append(dialog);
    dialog.showModal();
    (dialog.querySelector("input, textarea") ?? dialog.querySelector(".buttons button:last-child")).focus();
  });
}
