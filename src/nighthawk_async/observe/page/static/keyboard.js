// Keys of the tree, as the tree view pattern of WAI-ARIA has them, and those of the whole page.

export const KEYS = [
  ["↑ ↓", "previous, next row"],
  ["→ ←", "open or first child, close or parent"],
  ["Home End", "first, last row"],
  ["PgUp PgDn", "a page up, down"],
  ["Enter", "details"],
  ["Esc", "back to the tree, close the details"],
  ["/", "search; Enter goes to the first match"],
  ["f", "next failure"],
  ["g", "chart of tokens, cost and latency over time"],
  ["e", "cases and trials of evaluations"],
  ["m", "records of the memory"],
  ["c", "cancel, after a confirmation"],
  ["s", "steer; Ctrl+Enter sends the message, Enter begins a new line"],
  ["p", "suspend or resume"],
  ["a", "answer what is asked"],
  ["?", "this help"],
];

export function moveInTree(event, rows, tree, { select, expand, open }) {
  const list = rows.list;
  const place = rows.places.get(tree.selected) ?? -1;
  const row = list[place];
  const goTo = (index) => list.length && select(list[Math.min(Math.max(index, 0), list.length - 1)].id);
  const moves = {
    ArrowDown: () => goTo(place + 1),
    ArrowUp: () => goTo(place - 1),
    Home: () => goTo(0),
    End: () => goTo(list.length - 1),
    PageDown: () => goTo(place + tree.rowsPerPage),
    PageUp: () => goTo(place - tree.rowsPerPage),
    ArrowRight: () => goIn(row, place),
    ArrowLeft: () => goOut(row, place),
    Enter: () => row && open(row.id),
  };
  function goIn() {
    if (!row?.hasChildren) return;
    if (row.isExpanded) goTo(place + 1);
    else expand(row.id, true);
  }
  function goOut() {
    if (!row) return;
    if (row.isExpanded) return expand(row.id, false);
    for (let above = place - 1; above >= 0; above -= 1) {
      if (list[above].depth < row.depth) return goTo(above);
    }
  }
  if (event.altKey || event.ctrlKey || event.metaKey || !Object.hasOwn(moves, event.key)) return false;
  event.preventDefault();
  moves[event.key]();
  return true;
}

// Whether the keys of the tree are meant for it though it has not the focus: nothing else has it.
export function isNowhere(target) {
  return target === document.body || target === document.documentElement;
}

export function isTyping(target) {
  return target instanceof Element && Boolean(target.closest("input, textarea, select, dialog"));
}
