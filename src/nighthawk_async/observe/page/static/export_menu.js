// Saves a node and everything below it as a file.

import { element } from "./dom.js";
import { authorization } from "./token.js";

const FORMS = [
  ["page", "html", "Page (one HTML file)"],
  ["recording", "jsonl", "Recording (JSON lines)"],
];

// idOf gives the node when the menu is used.
export function makeExportMenu(idOf, streamOf, notify) {
  const menu = element("details", { className: "menu" });
  const save = async (form, ending) => {
    menu.open = false;
    const fault = await saveNode(idOf(), streamOf(), form, ending);
    if (fault) notify(fault, true);
  };
  const items = FORMS.map(([form, ending, text]) =>
    element("button", { text, attributes: { type: "button" }, on: { click: () => save(form, ending) } }),
  );
  menu.append(element("summary", { text: "Export" }), element("div", { className: "items" }, ...items));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    menu.open = false;
    menu.firstChild.focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
}

// What went wrong; empty for nothing.
async function saveNode(id, stream, form, ending) {
  const query = new URLSearchParams({ stream: stream ?? "" });
  let blob;
  try {
    const response = await fetch(`api/nodes/${encodeURIComponent(id)}/${form}?${query}`, { headers: authorization(), cache: "no-store" });
    if (!response.ok) return (await response.json().catch(() => ({}))).detail ?? `The service answers ${response.status}.`;
    blob = await response.blob();
  } catch {
    return "The service cannot be reached.";
  }
  const address = URL.createObjectURL(blob);
  element("a", { attributes: { href: address, download: `node-${id}.${ending}` } }).click();
  // The browser has begun to save it by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  return "";
}
