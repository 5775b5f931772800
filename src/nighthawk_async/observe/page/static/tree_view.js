// The tree: rows of one height, of which only those that are seen are elements.

import { element, putInOrder, setAttribute } from "./dom.js";
import { makeRow, updateRow } from "./row_elements.js";

export const ROW_HEIGHT = 26;
const ROWS_BEYOND = 8;

export class TreeView {
  #container;
  #canvas = element("div", { className: "canvas", attributes: { role: "presentation" } });
  #store;
  #rows;
  #subtrees;
  #made = new Map();
  #spare = [];
  #anchor = null;
  selected = null;

  constructor(container, store, rows, subtrees, { onSelect, onToggle, onScroll }) {
    this.#container = container;
    this.#store = store;
    this.#rows = rows;
    this.#subtrees = subtrees;
    container.append(this.#canvas);
    container.addEventListener("scroll", onScroll, { passive: true });
    this.#canvas.addEventListener("click", (event) => {
      const id = event.target.closest("[data-id]")?.dataset.id;
      if (!id) return;
      if (event.target.closest(".twisty")) onToggle(id);
      else onSelect(id);
    });
    this.#canvas.addEventListener("dblclick", (event) => {
      const id = event.target.closest("[data-id]")?.dataset.id;
      if (id && !event.target.closest(".twisty")) onToggle(id);
    });
  }

  get rowsPerPage() {
    return Math.max(1, Math.floor(this.#container.clientHeight / ROW_HEIGHT) - 1);
  }

  // The headings above stand beside no scroll bar.
  get scrollBarWidth() {
    return this.#container.offsetWidth - this.#container.clientWidth;
  }

  // After the list of rows has changed: what is at the top of the window stays there.
  rowsChanged() {
    this.#canvas.style.height = `${this.#rows.list.length * ROW_HEIGHT}px`;
    const anchor = this.#anchor;
    const place = anchor && this.#rows.places.get(anchor.id);
    if (anchor && place !== undefined && this.#container.scrollTop > 0) {
      this.#container.scrollTop = place * ROW_HEIGHT + anchor.offset;
    }
  }

  scrollToSelected() {
    const place = this.#rows.places.get(this.selected);
    if (place === undefined) return;
    const top = place * ROW_HEIGHT;
    const { scrollTop, clientHeight } = this.#container;
    if (top < scrollTop) this.#container.scrollTop = top;
    else if (top + ROW_HEIGHT > scrollTop + clientHeight) this.#container.scrollTop = top + ROW_HEIGHT - clientHeight;
  }

  draw(now) {
    const { scrollTop, clientHeight } = this.#container;
    const list = this.#rows.list;
    const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - ROWS_BEYOND);
    const last = Math.min(list.length, Math.ceil((scrollTop + clientHeight) / ROW_HEIGHT) + ROWS_BEYOND);
    this.#keepAnchor(scrollTop);
    const wanted = new Set();
    for (let index = first; index < last; index += 1) wanted.add(list[index].id);
    for (const [id, made] of this.#made) if (!wanted.has(id)) this.#putAway(id, made);
    for (let index = first; index < last; index += 1) this.#drawRow(list[index], index, now);
    // Who reads the page without seeing it goes by the order of the elements.
    putInOrder(this.#canvas, [...wanted].flatMap((id) => this.#made.get(id)?.row ?? []));
    const chosen = this.#rows.of(this.selected)?.id;
    setAttribute(this.#container, "aria-activedescendant", this.#made.has(chosen) ? `row-${chosen}` : null);
  }

  #keepAnchor(scrollTop) {
    const index = Math.floor(scrollTop / ROW_HEIGHT);
    const row = this.#rows.list[index];
    this.#anchor = row ? { id: row.id, offset: scrollTop - index * ROW_HEIGHT } : null;
  }

  #putAway(id, made) {
    this.#made.delete(id);
    made.row.remove();
    if (this.#spare.length < 50) this.#spare.push(made);
  }

  #drawRow(place, index, now) {
    const node = this.#store.get(place.id);
    const head = this.#store.get(place.headId);
    if (!node || !head) return;
    let made = this.#made.get(place.id);
    if (!made) {
      made = this.#spare.pop() ?? makeRow();
      this.#made.set(place.id, made);
      this.#canvas.append(made.row);
    }
    const top = `${index * ROW_HEIGHT}px`;
    if (made.row.style.top !== top) made.row.style.top = top;
    const isSelected = place.id === this.selected || place.headId === this.selected;
    const isParking = this.#store.isParking(node.id);
    const failures = this.#subtrees.failuresBelow(node.id);
    updateRow(made, { place, head, node, root: this.#store.rootOf(place.id), isSelected, isParking, failures, now });
  }
}
