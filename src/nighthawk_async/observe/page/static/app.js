// The page: brings together what is known, what is shown and what is done.

import { Actions } from "./actions.js";
import { nodeInAddress, showInAddress } from "./address.js";
import { Chart } from "./chart.js";
import { Details } from "./details.js";
import { closeDialogsAboutNodes, showKeys } from "./dialogs.js";
import { byId, element, setText } from "./dom.js";
import { makeExportMenu } from "./export_menu.js";
import { EvaluationPanel } from "./evaluation.js";
import { Filters } from "./filters.js";
import { clockTime, plural } from "./format.js";
import { KEYS, isNowhere, isTyping, moveInTree } from "./keyboard.js";
import { MemoryPanel } from "./memory.js";
import { Rows } from "./rows.js";
import { Search } from "./search.js";
import { connect, isFile, recordedAt } from "./source.js";
import { KIND_NAMES, kindLabel } from "./states.js";
import { Store, TOP } from "./store.js";
import { Subtrees } from "./subtrees.js";
import { Budgets } from "./budgets.js";
import { Summary } from "./summary.js";
import { setUpTheme } from "./theme.js";
import { getToken, setToken, takeTokenFromAddress } from "./token.js";
import { TreeView } from "./tree_view.js";

const TICK = 250;
const DETAILS_DELAY = 120;
const NOTICE_TIME = 5_000;

const STATES_OF_CONNECTION = {
  connecting: "connecting",
  live: "live",
  offline: "no connection, trying again",
  locked: "a token is needed",
  empty: "nothing is recorded yet, trying again",
  away: "the store of the runs cannot be read, trying again",
  file: isFile ? `as it was on ${new Date(recordedAt * 1000).toLocaleDateString()} at ${clockTime(recordedAt, false)}` : "",
};

const store = new Store();
const filters = new Filters();
const subtrees = new Subtrees(store);
const rows = new Rows(store, filters, subtrees);
const main = byId("main");
const treeElement = byId("tree");
const panel = byId("details");

let clockOffset = 0;
let knownVersion = -1;
let isRowsDirty = true;
let frame = 0;
let detailsTimer = 0;
let noticeTimer = 0;
let needsToken = false;
let isLocked = false;
let linked = null;

const now = () => recordedAt ?? Date.now() / 1000 + clockOffset;
const actions = new Actions(store, { notify, onToken: tokenChanged, onParking: parkingChanged });
const details = new Details(panel, actions, store, { now, onOpen: select, makeMenu });
const chart = new Chart(byId("chart"), store, now);
const evaluations = new EvaluationPanel({ panel: byId("evaluation"), button: byId("evaluations") }, store, revealOpen);
const memories = new MemoryPanel({ panel: byId("memory"), button: byId("memories") }, actions, notify);
const search = new Search((nodes) => {
  filters.found = new Set(nodes);
  rowsChanged();
});
const tree = new TreeView(treeElement, store, rows, subtrees, { onSelect: select, onToggle: toggle, onScroll: schedule });
const summary = new Summary({ totals: byId("totals"), states: byId("states"), asked: byId("asked"), onState: toggleState });

new Budgets(byId("totals"));

linked = nodeInAddress();
if (takeTokenFromAddress()) actions.checkToken();
setUpTheme(byId("theme"));
setUpFilters();
setUpKeyboard();
byId("failures").addEventListener("click", goToFailure);
byId("charts").addEventListener("click", toggleChart);
byId("evaluations").addEventListener("click", () => evaluations.toggle());
byId("memories").addEventListener("click", () => memories.toggle());
byId("export").append(makeMenu(TOP));
byId("help").addEventListener("click", () => showKeys(KEYS));
byId("asked").addEventListener("click", () => summary.firstAsked && reveal(summary.firstAsked));
byId("token").addEventListener("click", () => (getToken() ? forgetToken() : actions.enterToken()));
new ResizeObserver(resized).observe(treeElement);
const connection = connect("api/changes", take, showConnection);
setInterval(tick, TICK);
schedule();

function take(name, data) {
  if (name === "reset") begin(data);
  else if (name === "nodes") {
    store.apply(data);
    search.again();
    // Only the last of several events says who is gone, and so that all others are there.
    if (data.gone && tree.selected !== null && !store.get(tree.selected)) clearSelection();
    if (data.gone) goToLinked();
  }
  schedule();
}

// Whatever was known does not hold any more. In another tree, the same numbers stand for other nodes.
function begin(data) {
  if (data.stream !== actions.stream) {
    if (actions.stream !== null) notify("The service was restarted, or another process of it answers.");
    closeDialogsAboutNodes();
    clearSelection();
    rows.forgetChoices();
  }
  store.reset();
  clockOffset = data.now - Date.now() / 1000;
  actions.stream = data.stream;
  actions.canAct = data.can_act;
  memories.offer(data.has_memory === true && !isFile);
  needsToken = data.can_act || data.protects_reading;
  isLocked = false;
  setText(byId("title"), data.title);
  document.title = data.title;
  showToken();
  details.redraw();
  search.ask(filters.text, actions.stream);
}

// The node of a shared link, once the service has told of everything.
function goToLinked() {
  if (linked === null) return;
  const { id, stream } = linked;
  linked = null;
  if (stream && stream !== actions.stream) notify("The link is to a node of an earlier start of the service.", true);
  else if (!store.get(id)) notify(`There is no node #${id}, or no more.`, true);
  else reveal(id);
}

function goToFailure() {
  const next = subtrees.failureAfter(tree.selected);
  if (next === null) notify("Nothing has failed.");
  else reveal(next);
}

function schedule() {
  frame ||= requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  if (isRowsDirty || knownVersion !== store.version) {
    isRowsDirty = false;
    knownVersion = store.version;
    rows.update();
    subtrees.update();
    summary.update(store, filters, subtrees.failures.length);
    showFailures();
    evaluations.update();
    tree.rowsChanged();
    showEmptiness();
  }
  tree.draw(now());
}

function tick() {
  if (document.hidden) return;
  if (isFile) return;
  details.tick();
  chart.tick();
  evaluations.tick();
  schedule();
}

function resized() {
  byId("headings").style.paddingRight = `${tree.scrollBarWidth + 12}px`;
  schedule();
}

function rowsChanged() {
  isRowsDirty = true;
  schedule();
}

function showEmptiness() {
  const empty = byId("empty");
  empty.hidden = rows.list.length > 0;
  const nothing = isLocked ? "What goes on is shown to those who have the token." : "Nothing has been recorded yet.";
  setText(empty, filters.isActive && !isLocked ? "Nothing matches." : nothing);
  setText(byId("matches"), filters.isActive ? plural(rows.matches, "match", "matches") : "");
}

function showFailures() {
  subtrees.update();
  const button = byId("failures");
  button.hidden = !subtrees.failures.length;
  setText(button, `${plural(subtrees.failures.length, "failure", "failures")} ›`);
}

function showConnection(state) {
  const shown = byId("connection");
  shown.className = `connection ${state}`;
  setText(shown, STATES_OF_CONNECTION[state] ?? state);
  if (state === "locked") {
    needsToken = isLocked = true;
    setToken("");
    showToken();
    showNothing();
    if (!document.querySelector("dialog")) actions.enterToken("The dashboard shows what goes on to those who have its token.");
  }
}

// Who has no token any more sees nothing of what was shown with it.
function showNothing() {
  closeDialogsAboutNodes();
  clearSelection();
  memories.forget();
  store.reset();
  rowsChanged();
}

function select(id) {
  if (tree.selected === id) return openDetails();
  tree.selected = id;
  showInAddress(id, actions.stream);
  clearTimeout(detailsTimer);
  // Whoever runs through the rows opens only the one where they stay.
  detailsTimer = setTimeout(openDetails, main.classList.contains("open") ? DETAILS_DELAY : 0);
  rows.update();
  tree.scrollToSelected();
  schedule();
}

function reveal(id) {
  filters.clear();
  rows.searchChanged();
  search.ask("", actions.stream);
  showFilters();
  rows.reveal(id);
  rowsChanged();
  rows.update();
  select(id);
}

function revealOpen(id) {
  reveal(id);
  if (rows.of(id)?.hasChildren) expand(id, true);
}

function openDetails() {
  clearTimeout(detailsTimer);
  const id = tree.selected;
  if (id === null || details.id === id) return;
  rows.keepOpen(id);
  panel.hidden = false;
  main.classList.add("open");
  details.open(id, actions.stream, closeDetails);
  tree.scrollToSelected();
}

// The focus goes from here to the tree, and stays where it is elsewhere: somebody may be typing.
function closeDetails() {
  const hadFocus = panel.contains(document.activeElement) || document.activeElement === document.body;
  details.close();
  panel.hidden = true;
  main.classList.remove("open");
  if (hadFocus) treeElement.focus();
  schedule();
}

function clearSelection() {
  clearTimeout(detailsTimer);
  tree.selected = null;
  showInAddress(null);
  if (!panel.hidden) closeDetails();
}

function toggle(id) {
  const row = rows.of(id);
  if (row?.hasChildren) expand(id, !row.isExpanded);
}

function expand(id, isExpanded) {
  rows.setExpanded(id, isExpanded);
  rows.update(); // the next key may come before the next frame
  rowsChanged();
}

function toggleState(state) {
  if (!filters.states.delete(state)) filters.states.add(state);
  rows.searchChanged();
  rowsChanged();
}

function setUpFilters() {
  const kind = byId("kind");
  kind.append(element("option", { text: "All kinds", attributes: { value: "" } }));
  for (const name of KIND_NAMES) kind.append(element("option", { text: kindLabel(name), attributes: { value: name } }));
  kind.addEventListener("change", () => {
    filters.kind = kind.value;
    rows.searchChanged();
    rowsChanged();
  });
  const field = byId("search");
  field.addEventListener("input", () => {
    filters.text = field.value.trim().toLowerCase();
    search.ask(filters.text, actions.stream);
    rows.searchChanged();
    rowsChanged();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      goToMatch();
    }
  });
}

function goToMatch() {
  rows.update();
  const first = filters.isActive && rows.list.find((row) => !row.isBeside);
  treeElement.focus();
  if (first) select(first.id);
}

function toggleChart() {
  const isShown = chart.toggle();
  byId("charts").setAttribute("aria-expanded", isShown);
}

// A file cannot be saved again. A function is saved with its step, whose row it shares.
function makeMenu(id) {
  if (isFile) return "";
  const whole = () => (id === TOP ? id : (rows.of(id)?.headId ?? id));
  return makeExportMenu(whole, () => actions.stream, notify);
}

function showFilters() {
  byId("search").value = filters.text;
  byId("kind").value = filters.kind;
}

function setUpKeyboard() {
  const move = (event) => moveInTree(event, rows, tree, { select, expand, open: focusDetails });
  treeElement.addEventListener("keydown", move);
  treeElement.addEventListener("focus", () => {
    if (tree.selected === null && rows.list.length && treeElement.matches(":focus-visible")) {
      tree.selected = rows.list[0].id;
      schedule();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog")) return goBack(event);
    if (isTyping(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (isNowhere(event.target) && !event.shiftKey && move(event)) {
      if (isNowhere(document.activeElement)) treeElement.focus();
      return;
    }
    const keys = { "/": goToSearch, f: goToFailure, g: toggleChart, e: () => evaluations.toggle(), m: () => memories.toggle(), "?": () => showKeys(KEYS), c: act("cancel"), s: act("steer"), p: act("suspend", "resume"), a: answer };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function goToSearch() {
  byId("search").focus();
  byId("search").select();
}

function focusDetails() {
  openDetails();
  panel.focus();
}

function goBack(event) {
  event.preventDefault(); // the browser would empty the search without telling
  if (event.target === byId("search") || panel.contains(event.target)) treeElement.focus();
  else if (panel.hidden) treeElement.focus();
  else closeDetails();
}

function act(...names) {
  return () => {
    const node = store.get(rows.of(tree.selected)?.id ?? tree.selected);
    const name = names.find((each) => node?.controls?.includes(each));
    if (!node || !isSeen(node.id)) return notify("No row is chosen.");
    if (!actions.canAct) return notify("The dashboard is read-only: no token is configured.", true);
    if (!name && !store.isParking(node.id)) return notify(`“${node.name}” cannot be asked to ${names.join(" or ")} now.`, true);
    if (name === "cancel") actions.cancel(node);
    else if (name === "steer") actions.steer(node);
    else actions.suspendOrResume(node);
  };
}

// What the filters hide is not acted on, unless its details are open.
function isSeen(id) {
  return rows.places.has(id) || details.id === id;
}

function answer() {
  if (summary.firstAsked === null) return notify("Nobody asks anything.");
  const isAsking = store.get(tree.selected)?.controls?.includes("answer");
  if (!isAsking) reveal(summary.firstAsked);
  openDetails();
  details.focusAnswer();
}

function parkingChanged() {
  details.redraw();
  schedule();
}

function forgetToken() {
  setToken("");
  tokenChanged();
}

function tokenChanged() {
  showToken();
  connection.restart();
  details.retry();
  memories.tokenChanged();
}

function showToken() {
  const button = byId("token");
  button.hidden = !needsToken;
  setText(button, getToken() ? "Forget token" : "Enter token");
}

function notify(text, isBad = false) {
  const notice = byId("notice");
  notice.className = isBad ? "notice bad" : "notice";
  setText(notice, text);
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => (notice.hidden = true), NOTICE_TIME);
}
