// Elements. Texts become text nodes: nothing that comes from the service is ever read as markup.

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

export function byId(id) {
  return document.getElementById(id);
}
