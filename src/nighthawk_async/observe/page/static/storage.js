// A value that the browser keeps. Where it keeps nothing, as in a file on some systems, it is forgotten.

export function keptIn(name, key) {
  let value = "";
  let storage = null;
  try {
    storage = window[name];
    value = storage.getItem(key) ?? "";
  } catch {
    // There is none.
  }
  return {
    get value() {
      return value;
    },
    set value(next) {
      value = next;
      try {
        if (next) storage?.setItem(key, next);
        else storage?.removeItem(key);
      } catch {
        // It is full, or not allowed.
      }
    },
  };
}
