// Elements. Texts become text nodes: nothing that comes from the service is ever read as markup.
// What is there already is changed and not made anew, so that focus, selection and scrolling stay.

export function element(tag, { className, text, attributes = {}, on = {} } = {}, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const [name, listener] of Object.entries(on)) made.addEventListener(name, listener);
  made.append(...children);
  return made;
}

export function setText(shown, text) {
  if (shown.textContent !== text) shown.textContent = text;
}

export function setAttribute(shown, name, value) {
  if (value === null || value === undefined) {
    if (shown.hasAttribute(name)) shown.removeAttribute(name);
  } else if (shown.getAttribute(name) !== String(value)) {
    shown.setAttribute(name, value);
  }
}

export function setClass(shown, className) {
  if (shown.className !== className) shown.className = className;
}

const keptChildren = new WeakMap();

// Gives an element a child for each item. A child stays as long as its key does, and none moves without need.
export function keepChildren(parent, items, { keyOf, make, bring }) {
  const before = keptChildren.get(parent) ?? new Map();
  const now = new Map(items.map((item) => [keyOf(item), before.get(keyOf(item)) ?? make(item)]));
  for (const [key, child] of before) if (!now.has(key)) child.remove();
  keptChildren.set(parent, now);
  putInOrder(parent, [...now.values()]);
  for (const item of items) bring(now.get(keyOf(item)), item);
}

export function putInOrder(parent, children) {
  let place = parent.firstChild;
  for (const child of children) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
}

export function byId(id) {
  return document.getElementById(id);
}
