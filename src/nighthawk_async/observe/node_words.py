"""Words and figures for nodes of the tree as text. Pure.

The texts of a node may come from a model. Here they become text on one line, without any character that could
move the cursor or reverse the reading direction.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..observation import PROGRESS, READ_AS, WORKER, NodeState
from ..prompt.plain_text import single_line
from ..types.usage import Usage, inexact_mark
from .views import NodeView

MARKS: Mapping[NodeState, str] = {
    "waiting": "○",
    "running": "●",
    "suspended": "‖",
    "completed": "✓",
    "raised": "!",
    "failed": "✗",
    "cancelled": "⊘",
}

PLAIN_MARKS: Mapping[NodeState, str] = {
    "waiting": ".",
    "running": "*",
    "suspended": "=",
    "completed": "+",
    "raised": "!",
    "failed": "x",
    "cancelled": "-",
}
"""For terminals that show ASCII only."""

STYLES: Mapping[NodeState, str] = {
    "waiting": "dim",
    "running": "cyan",
    "suspended": "yellow",
    "completed": "green",
    "raised": "yellow",
    "failed": "red",
    "cancelled": "magenta",
}

_KIND_WORDS = {
    "run": "run",
    "step": "step",
    "model_request": "model",
    "tool_call": "tool",
    "group": "group",
    "task": "task",
    "actor": "actor",
    "pool": "pool",
    "job": "job",
    "question": "question",
    "resource": "resource",
    "request": "request",
}
_MAX_CHARACTERS = 1_000
_DELIMITER = re.compile(r"<<<NH:\w+>>>(?:\\n)*")
_FUNCTION = re.compile(r'"<(?:function|class) ([^"\\]+)>"')
_SPOKEN = ("text", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of a node, in three parts of decreasing importance.

    Args:
        kind: A word for what it is; empty for a function.
        name: Its name, with the name of its worker if it is a call on one, and the progress that it reports.
        inputs: Its inputs.
    """

    kind: str
    name: str
    inputs: str


def visible(text: str) -> str:
    """The text with every invisible character replaced.

    Args:
        text: The text.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def one_line(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    """The text on one line, of bounded length.

    Args:
        text: The text.
        max_characters: The number of its characters that are kept.
    """
    return visible(single_line(text, max_characters))


def label_of(view: NodeView, step: NodeView | None = None) -> Label:
    """Return the label of a node.

    Args:
        view: The node.
        step: The step that shares its row: it has the inputs.
    """
    kind, name = _KIND_WORDS.get(view.kind, ""), one_line(view.name, 200)
    inputs = inputs_text((step or view).inputs)
    worker = view.attributes.get(WORKER)
    place = "" if worker is None else f" on {one_line(str(worker), 200)}"
    reported = progress_text(view) or ("" if step is None else progress_text(step))
    progress = f": {one_line(reported, 200)}" if reported else ""
    how = (step or view).attributes.get(READ_AS)
    reading = "" if how is None else f" (read: {one_line(str(how), 200)})"
    return Label(kind="" if kind == name else kind, name=name + place + reading + progress, inputs=inputs)


def progress_text(view: NodeView) -> str:
    """Return the progress that a node reports; empty for none, and when the node has ended."""
    return "" if view.is_ended else str(view.attributes.get(PROGRESS, ""))


def inputs_text(inputs: Mapping[str, str]) -> str:
    """Return the inputs of a node, as arguments are written.

    Args:
        inputs: Previews by name; one without a name is shown as it is.
    """
    shown = ((name, preview_in_row(value)[:200]) for name, value in inputs.items())
    return one_line(", ".join(f"{name}={value}" if name else value for name, value in shown))


def preview_in_row(preview: str) -> str:
    """Return the preview of a value for a row: functions by name, and prompts without section delimiters.

    Args:
        preview: The preview, as views have it.
    """
    return _FUNCTION.sub(r"\1", _DELIMITER.sub("", preview))


def last_line_said(view: NodeView) -> str:
    """The last line of the model's text in a node; empty when the last part is something else.

    Args:
        view: The node.
    """
    if not view.transcript or view.transcript[-1].kind not in _SPOKEN:
        return ""
    end = view.transcript[-1].text[-_MAX_CHARACTERS:].rstrip()
    return visible(end.splitlines()[-1]).strip() if end else ""


def error_text(view: NodeView) -> str:
    """Return the error of a node on one line; empty for none, or if its state already shows it.

    Args:
        view: The node.
    """
    error = view.error
    if error is None or (view.state == "cancelled" and not error.message):
        return ""
    return one_line(f"{error.type}: {error.message}" if error.message else error.type)


def seconds_of(view: NodeView, now: float) -> float:
    """Return the duration of a node so far, in seconds.

    Args:
        view: The node.
        now: The time, in Unix seconds.
    """
    return max(0.0, (now if view.ended_at is None else view.ended_at) - view.began_at)


def seconds_text(seconds: float) -> str:
    """A duration, in at most six characters up to a day.

    Args:
        seconds: The number of seconds.
    """
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m"


def tokens_text(usage: Usage) -> str:
    """Tokens sent and received together, a `~` before them when they are not exact; empty for none.

    Args:
        usage: The usage.
    """
    tokens = usage.input_tokens + usage.output_tokens
    return f"{inexact_mark(usage)}{tokens:,} tok" if tokens else ""


def cached_text(usage: Usage) -> str:
    """Return a word for requests that a response cache answered; empty for none.

    Args:
        usage: The usage.
    """
    count = usage.cached_requests
    return "" if not count else "cached" if count == 1 and not usage.requests else f"{count:,} cached"


def sent_and_received_text(usage: Usage) -> str:
    """Tokens sent and received, each with a `~` when they are not exact; empty for none.

    Args:
        usage: The usage.
    """
    mark, sent, received = inexact_mark(usage), usage.input_tokens, usage.output_tokens
    return f"{mark}{sent:,} tokens in, {mark}{received:,} out" if sent or received else ""
