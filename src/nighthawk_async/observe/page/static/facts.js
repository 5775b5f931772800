// What is known of a node in a few words, and the buttons with which it is influenced.

import { element, keepChildren, setClass, setText } from "./dom.js";
import { clockTime, duration } from "./format.js";
import { glyphOf, kindLabel } from "./states.js";

// A function and its step share a row: each leads to the other.
export function showFacts(list, node, { now, isParking, partner, onOpen }) {
  const facts = [
    ["kind", `${kindLabel(node.kind)}, node ${node.id}`],
    ["state", isParking ? `${node.state}; waits before its next turn` : node.state, `state ${node.state}`],
    ["began", clockTime(node.began_at)],
    ["duration", duration((node.ended_at ?? now) - node.began_at)],
  ];
  if (partner) facts.push([partner.kind, `${partner.name}, node ${partner.id}`]);
  if (node.source) facts.push(["source", node.source, "code"]);
  if (node.progress) facts.push(["progress", node.progress]);
  if (node.worker) facts.push(["worker", node.worker]);
  if (node.read_as) facts.push(["read as", node.read_as]);
  if (node.retries) facts.push(["retries", String(node.retries)]);
  if (node.dropped_children) facts.push(["dropped", `${node.dropped_children} children, kept no longer`]);
  keepChildren(list, facts, {
    keyOf: ([name]) => name,
    make: ([name]) => element("div", {}, element("dt", { text: name }), makeValue(name, partner, onOpen)),
    bring: ({ lastChild: value }, [name, text, className = ""]) => {
      setClass(value, className);
      if (name === "state") setText(value.firstChild, glyphOf(node.state));
      setText(value.lastChild, text);
    },
  });
}

function makeValue(name, partner, onOpen) {
  if (name === partner?.kind) {
    const open = () => onOpen(partner.id);
    return element("dd", {}, element("button", { className: "link", attributes: { type: "button" }, on: { click: open } }));
  }
  const glyph = name === "state" ? [element("span", { className: "glyph", attributes: { "aria-hidden": "true" } })] : [];
  return element("dd", {}, ...glyph, element("span"));
}

// One button suspends and resumes, so that the focus stays when it changes from one to the other.
export function showButtons(bar, node, { canAct, isParking, onAction }) {
  const offered = new Set(node.controls);
  const known = {
    cancel: ["Cancel", "danger"],
    steer: ["Steer", ""],
    park: [node.state === "suspended" ? "Resume" : isParking ? "Do not suspend" : "Suspend", ""],
  };
  const names = ["cancel", "steer"].filter((name) => offered.has(name));
  if (offered.has("suspend") || offered.has("resume")) names.push("park");
  keepChildren(bar, canAct ? names : node.controls.length ? ["read-only"] : [], {
    keyOf: (name) => name,
    make: (name) =>
      known[name]
        ? element("button", { className: known[name][1], attributes: { type: "button" }, on: { click: () => onAction(name) } })
        : element("span", { className: "quiet", text: "Read-only: no token is configured." }),
    bring: (shown, name) => known[name] && setText(shown, known[name][0]),
  });
}
