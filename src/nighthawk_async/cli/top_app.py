"""A running service in the terminal: its tree, the details of one node, and actions on it."""

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import datetime
from typing import Any, ClassVar

import anyio
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container, VerticalScroll
from textual.events import Resize
from textual.widgets import Footer, Input, Static

from ..observe.node_words import (
    MARKS,
    STYLES,
    label_of,
    one_line,
    seconds_text,
    sent_and_received_text,
    visible,
)
from ..types.usage import cost_text
from .live_tree_picture import Figures, figures_line
from .top_client import DashboardError, NoDashboardError, TopClient
from .top_tree import TOP, Nodes, TreeRows, usage_of

_MAX_VALUE = 2_000
_MAX_ATTRIBUTES = 40
_PART_STYLES = {
    "text": "",
    "reasoning": "italic dim",
    "tool_call": "cyan",
    "tool_result": "",
    "message": "yellow",
    "note": "magenta",
}


def details_text(details: Mapping[str, Any], now: float) -> Text:
    """Return the details of a node as text.

    Args:
        details: The node as the dashboard reports it.
        now: The time of the service, in Unix seconds.
    """
    text = Text()
    for part in (_head(details, now), _figures(details), _values(details), _transcript(details)):
        for line in part:
            text.append_text(line).append("\n")
    return text


def _head(details: Mapping[str, Any], now: float) -> Iterator[Text]:
    state = details["state"]
    line = Text(f"{MARKS[state]} {state}", STYLES[state])
    yield line.append(f"  {details['kind']} {one_line(details['name'], 200)}  #{details['id']}", "bold")
    began, ended = details["began_at"], details["ended_at"]
    clock = datetime.fromtimestamp(began).strftime("%H:%M:%S")
    took = seconds_text(max(0.0, (now if ended is None else ended) - began))
    source = "" if details["source"] is None else f"  {one_line(details['source'])}"
    yield Text(f"began {clock}  {took}{source}", "dim")
    if (error := details["error"]) is not None:
        yield from _block(": ".join(filter(None, (error["type"], error["message"]))), "red")


def _figures(details: Mapping[str, Any]) -> Iterator[Text]:
    for name, words in (("usage", "itself"), ("subtree_usage", "with all below")):
        usage = usage_of(details[name])
        if not usage.requests:
            continue
        parts = [f"{usage.requests:,} requests", sent_and_received_text(usage), cost_text(usage)]
        yield Text(f"{words}: {', '.join(part for part in parts if part)}")
    if details["subtree_retries"]:
        yield Text(f"retries: {details['subtree_retries']:,}")
    if details["controls"]:
        yield Text(f"can be asked to: {', '.join(details['controls'])}", "dim")


def _values(details: Mapping[str, Any]) -> Iterator[Text]:
    for title, values in (("before", details["inputs"]), ("after", details["outputs"])):
        if values:
            yield Text(f"\n{title}", "bold")
        for name, value in values.items():
            yield from _block(f"{name} = {value[:_MAX_VALUE]}", "")
    attributes = list(details["attributes"].items())[:_MAX_ATTRIBUTES]
    if attributes:
        yield Text("\nattributes", "bold")
    for name, value in attributes:
        yield from _block(f"{name}: {str(value)[:_MAX_VALUE]}", "dim")


def _transcript(details: Mapping[str, Any]) -> Iterator[Text]:
    if details["transcript"]:
        yield Text("\ntranscript", "bold")
    for part in details["transcript"]:
        key = f" {one_line(part['key'])}" if part["key"] else ""
        cut = "  (something is left out before)" if part["is_cut"] else ""
        yield Text(f"{part['kind'].replace('_', ' ')}{key}{cut}", "dim underline")
        yield from _block(part["text"].rstrip(), _PART_STYLES[part["kind"]])


def _block(text: str, style: str) -> Iterator[Text]:
    for line in text.replace("\t", "    ").splitlines():
        yield Text(visible(line), style)


_FRAME_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_DETAILS_SECONDS = 0.5
_WIDE = 110  # columns from which the node is beside the tree instead of below it
_WORDS = {"cancel": "cancel", "steer": "tell", "suspend": "suspend", "resume": "resume"}


@contextmanager
def _understood() -> Generator[None]:
    """Turn errors from data of another version, or of something that is no dashboard, into a clear error."""
    try:
        yield
    except (AttributeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise DashboardError("the dashboard tells something that is not understood") from error


class TopApp(App[NoDashboardError]):
    """The terminal view. It returns its reason for ending by itself: the answer is not from a dashboard.

    Args:
        client: The client of the dashboard.
        url: The address to name.
    """

    CSS = """
    #head { height: 1; padding: 0 1; background: $panel; }
    #tree { height: 2fr; scrollbar-size-vertical: 1; }
    #node { height: 1fr; border-top: solid $panel; padding: 0 1; scrollbar-size-vertical: 1; }
    #body { layout: vertical; height: 1fr; }
    .wide #body { layout: horizontal; }
    .wide #tree { width: 3fr; height: 1fr; }
    .wide #node { width: 2fr; height: 1fr; border-top: none; border-left: solid $panel; }
    #line { display: none; height: 1; border: none; padding: 0 1; }
    #line.asking { display: block; }
    """
    BINDINGS: ClassVar = [
        Binding("slash", "search", "search", key_display="/"),
        Binding("c", "ask('cancel')", "cancel"),
        Binding("s", "ask('steer')", "steer"),
        Binding("p", "act('suspend')", "suspend"),
        Binding("r", "act('resume')", "resume"),
        Binding("f", "next_failure", "next failure"),
        Binding("plus", "fold_all(False)", "unfold all", key_display="+", show=False),
        Binding("minus", "fold_all(True)", "fold all", key_display="-", show=False),
        Binding("y", "copy", "copy"),
        Binding("tab", "focus_next", "scroll", show=False),
        Binding("escape", "leave", "back", show=False),
        Binding("q", "quit", "quit"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, client: TopClient, url: str) -> None:
        super().__init__()
        # Held, because a view that is being closed no longer finds them.
        self._head = Static(id="head")
        self._tree = TreeRows(id="tree")
        self._node = VerticalScroll(id="node")
        self._details = Static(id="details")
        self._line = Input(id="line", compact=True)
        self._client = client
        self._url = url
        self._service_nodes = Nodes()
        self._folded: dict[str, bool] = {}
        self._search = ""
        self._asked = ""
        self._asked_of = ""
        self._clock_offset = 0.0
        self._can_act = False
        self._has_begun = False
        self._connection = "connecting"
        self._is_changed = True
        self._shown_version: tuple[str, int] | None = None
        self._details_due = 0.0

    def compose(self) -> ComposeResult:
        """The parts, from the top."""
        yield self._head
        with Container(id="body"):
            yield self._tree
            with self._node:
                yield self._details
        yield self._line
        yield Footer()

    def on_mount(self) -> None:
        """Begin to listen and to draw."""
        self._tree.focus()
        self.run_worker(self._listen(), name="changes")
        self.set_interval(_FRAME_SECONDS, self._draw)
        self._draw()

    def on_resize(self, event: Resize) -> None:
        """Put the node beside the tree when there is room."""
        self.screen.set_class(event.size.width >= _WIDE, "wide")

    @property
    def _now(self) -> float:
        """The time of the service."""
        return time.time() + self._clock_offset

    async def _listen(self) -> None:
        """Receive the dashboard's events for as long as the view is open.

        An address that was a dashboard once is retried: the dashboard may be restarted.
        """
        while True:
            try:
                async with aclosing(self._client.changes()) as events:
                    async for name, data in events:
                        with _understood():
                            self._take(name, data)
            except DashboardError as error:
                if isinstance(error, NoDashboardError) and not self._has_begun:
                    self.exit(error)
                    return
                self._connection = f"{one_line(str(error))}; trying again"
                self._is_changed = True
            await anyio.sleep(_RETRY_SECONDS)

    def _take(self, name: str, data: Mapping[str, Any]) -> None:
        self._connection = ""
        self._tree.remark = "nothing has begun yet"
        self._has_begun = True
        self._is_changed = True
        if name == "reset":
            self._forget_nodes()
            self._clock_offset = data["now"] - time.time()
            self._can_act = data["can_act"]
        elif name == "nodes":
            self._service_nodes.apply(data)

    def _forget_nodes(self) -> None:
        """Reset for another tree, in which the same ids mean other nodes: pending input is dropped."""
        self._service_nodes.reset()
        self._folded.clear()
        self._tree.chosen_id = None
        if self._asked not in ("", "search"):
            self._stop_asking()

    def _draw(self) -> None:
        top = self._service_nodes.views.get(TOP)
        self._head.update(self._head_text())
        if self._is_changed:
            self._is_changed = False
            rows = self._service_nodes.rows(folded=self._folded, search=self._search)
            self._tree.show(rows, self._now)
        elif top is not None:
            self._tree.tick(self._now)
        self._fetch_details()

    def _head_text(self) -> Text:
        top = self._service_nodes.views.get(TOP)
        if top is None:
            return Text(f"{self._url}  {self._connection}", no_wrap=True, overflow="ellipsis")
        usage = top.subtree_usage
        figures = Figures(
            seconds=max(0.0, self._now - top.began_at),
            states=self._service_nodes.counts(),
            tokens=sent_and_received_text(usage),
            cost=cost_text(usage),
            retries=top.subtree_retries,
        )
        remark = self._connection or (f"search: {self._search}" if self._search else "")
        line = Text(figures_line(figures, remark=remark), "bold", no_wrap=True, overflow="ellipsis")
        return line.append(f"  {self._url}", "dim")

    def _fetch_details(self) -> None:
        """Request the details of the chosen node periodically when it has changed."""
        view = self._service_nodes.views.get(self._tree.chosen_id or "")
        if view is None:
            self._details.update("")
            return
        is_other = self._shown_version is None or self._shown_version[0] != view.id
        is_due = is_other or time.monotonic() >= self._details_due
        if is_due and self._shown_version != (view.id, view.version):
            self._shown_version = (view.id, view.version)
            self._details_due = time.monotonic() + _DETAILS_SECONDS
            self.run_worker(self._show_details(view.id), exclusive=True, group="details")

    async def _show_details(self, node_id: str) -> None:
        try:
            details = await self._client.details(node_id)
            with _understood():
                text = details_text(details, self._now)
        except DashboardError as error:
            text = Text(one_line(str(error)), "red")
        self._details.update(text)

    def on_tree_rows_chosen(self) -> None:
        """Show another node."""
        self._node.scroll_home(animate=False)
        self._fetch_details()

    def on_tree_rows_folded(self, message: TreeRows.Folded) -> None:
        """Show the nodes below a node, or hide them."""
        self._folded[message.node_id] = message.is_folded
        self._is_changed = True
        self._draw()

    def action_next_failure(self) -> None:
        """Choose the next node that has failed by itself."""
        node_id = self._service_nodes.next_failure(self._tree.chosen_id)
        if node_id is None:
            self.notify("Nothing has failed.")
            return
        above = self._service_nodes.parent_of(node_id)
        while above is not None:
            self._folded[above] = False
            above = self._service_nodes.parent_of(above)
        self._search_for("")
        self._tree.choose(node_id)

    def action_fold_all(self, is_folded: bool) -> None:
        """Hide the nodes below every node, or show them."""
        self._folded.update((node_id, is_folded) for node_id in self._service_nodes.with_children())
        self._is_changed = True
        self._draw()

    def action_copy(self) -> None:
        """Copy the details of the chosen node to the clipboard of the terminal."""
        text = str(self._details.content)
        if not text:
            self.notify("Nothing is chosen.", severity="warning")
            return
        self.copy_to_clipboard(text)
        self.notify("copied", timeout=2)

    def action_search(self) -> None:
        """Ask for words to search for."""
        self._ask("search", "", "words in name, kind, state, inputs or error", self._search)

    def action_ask(self, action: str) -> None:
        """Ask for the text of an action: a reason, or a message."""
        node_id = self._controllable(action)
        if node_id is not None:
            hint = (
                "reason; Enter cancels it, Escape does not" if action == "cancel" else "message to the model"
            )
            label = label_of(self._service_nodes.views[node_id])
            self._ask(action, node_id, f"{_WORDS[action]} {label.kind} {label.name}: {hint}", "")

    def action_act(self, action: str) -> None:
        """Do an action that needs no text."""
        node_id = self._controllable(action)
        if node_id is not None:
            self.run_worker(self._act(node_id, action, {}))

    def action_leave(self) -> None:
        """Close the input line; at the tree, clear the search."""
        if self._asked:
            self._stop_asking()
        elif self._search:
            self._search_for("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while the user types."""
        if self._asked == "search":
            self._search_for(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do the requested action."""
        asked, node_id, said = self._asked, self._asked_of, event.value.strip()
        self._stop_asking()
        if asked == "cancel":
            self.run_worker(self._act(node_id, asked, {"reason": said} if said else {}))
        elif asked == "steer" and said:
            self.run_worker(self._act(node_id, asked, {"text": said}))

    def _controllable(self, action: str) -> str | None:
        """The chosen node, if the action is possible for it; otherwise shows the reason."""
        view = self._service_nodes.views.get(self._tree.chosen_id or "")
        if view is None:
            return None
        if not self._can_act:
            self.notify(
                "Nothing can be changed from here: there is no token, or these are runs of a store.",
                severity="warning",
            )
        elif view.is_ended:
            self.notify("It has ended.", severity="warning")
        elif not view.controls:
            self.notify(f"This {view.kind} cannot be asked to {action}: choose a step.", severity="warning")
        elif action not in view.controls:
            self.notify(f"It cannot be asked to {action} now.", severity="warning")
        else:
            return view.id
        return None

    async def _act(self, node_id: str, action: str, body: Mapping[str, str]) -> None:
        try:
            await self._client.act(node_id, action, body)
        except DashboardError as error:
            self.notify(one_line(str(error)), severity="error", markup=False)
        else:
            self.notify(f"asked to {action}: #{node_id}", timeout=2)

    def _search_for(self, words: str) -> None:
        self._search = words
        self._is_changed = True
        self._draw()

    def _ask(self, asked: str, node_id: str, placeholder: str, value: str) -> None:
        self._asked, self._asked_of = asked, node_id
        self._line.placeholder = placeholder
        self._line.value = value
        self._line.add_class("asking")
        self._line.focus()

    def _stop_asking(self) -> None:
        self._asked = ""
        self._line.remove_class("asking")
        self._tree.focus()
