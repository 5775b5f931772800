// Questions of the page itself. Each resolves to what was entered, or to null when it was closed.

import { byId, element } from "./dom.js";

const endings = new Set();

// Closes those that are about a node, when the nodes are no longer those that were looked at.
export function closeDialogsAboutNodes() {
  for (const end of [...endings]) end(null);
}

export function askForText({ title, text, label, button, isSecret = false, isLong = false, isAboutNode = false }) {
  const field = isLong
    ? element("textarea", { attributes: { "aria-label": label } })
    : element("input", {
        attributes: { "aria-label": label, type: isSecret ? "password" : "text", autocomplete: "off" },
      });
  return show({ title, text, content: [field], button, isAboutNode, valueOf: () => field.value.trim() || null });
}

export function askToConfirm({ title, text, button }) {
  return show({ title, text, content: [], button, isAboutNode: true, isDanger: true, valueOf: () => true });
}

export function showKeys(keys) {
  const list = element("dl");
  for (const [key, what] of keys) {
    const names = key.split(" ").flatMap((each) => [element("kbd", { text: each }), " "]);
    list.append(element("dt", {}, ...names), element("dd", { text: what }));
  }
  return show({ title: "Keyboard", text: "", content: [list], button: null, valueOf: () => null });
}

function show({ title, text, content, button, isAboutNode = false, isDanger = false, valueOf }) {
  const before = document.activeElement;
  return new Promise((resolve) => {
    const dialog = element("dialog", { attributes: { "aria-label": title } });
    const end = (value) => {
      endings.delete(end);
      dialog.remove();
      (before?.isConnected ? before : byId("tree")).focus();
      resolve(value);
    };
    if (isAboutNode) endings.add(end);
    const accept = () => end(valueOf());
    dialog.append(element("h2", { text: title }));
    if (text) dialog.append(element("p", { text }));
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
