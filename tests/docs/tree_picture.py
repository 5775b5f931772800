"""The picture of the README, drawn from the tree of a real run: `python -m tests.docs.tree_picture`.

A scripted model stands in for a model. Nothing in the picture comes from elsewhere, and it follows the
reader's choice between light and dark.
"""

import re
from html import escape
from pathlib import Path
from typing import Any, Literal

import anyio

import nighthawk_async as nh
from nighthawk_async import observe, parallel
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

PICTURE = Path(__file__).parents[2] / "docs" / "assets" / "tree.svg"
WIDTH, LINE, SIZE = 92, 19, 13
STYLE = (
    "text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328;white-space:pre}"
    "rect{fill:#f6f8fa;stroke:#d0d7de}.ok{fill:#1a7f37}.bad{fill:#b3261e}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#161b22;stroke:#30363d}"
    ".ok{fill:#3fb950}.bad{fill:#f2776e}}"
)


def days_since(order: int) -> int:
    """A function of the program that the block calls."""
    return 3 * order


@nh.natural_function
async def triage(mail: str, order: int) -> Literal["refund", "wait"]:
    decision: Literal["refund", "wait"] = nh.unset
    """natural
    Set <:decision> for <mail>: refund if <days_since> says more than 14 days for <order>.
    """
    return decision


def decide(request: nh.models.ModelRequest) -> Any:
    """What a model would answer."""
    value = "'refund' if days_since(order) > 14 else 'wait'"
    if "broken" in str(request.messages[0]):
        value = "'replace'"  # no value of the type: the model is told, and answers again
    if len(request.messages) > 1:
        value = "'refund'"
    call = tool_call("nh_assign", target_path="decision", expression=value)
    return model_response(call, tool_call("nh_outcome", kind="pass"))


async def tree_of_a_run() -> str:
    """The tree of a run, as text."""
    mails = [("Where is it?", 7), ("Still waiting.", 2), ("It is broken!", 6)]
    with observe.recording() as tree:
        async with nh.run(ScriptedModel(decide), run_id="desk"):
            await parallel.map(lambda each: triage(*each), mails, max_concurrent=1)
    return observe.view_as_text(tree.snapshot(), width=WIDTH, outputs=True)


def drawn(text: str) -> str:
    """The text as a picture."""
    lines = re.sub(r" +\d+\.\d+s", "", text).splitlines()  # how long it took differs from run to run
    places = range(14 + SIZE, 14 + SIZE + LINE * len(lines), LINE)
    rows = [
        f'<text x="14" y="{place}">{_marked(line)}</text>' for place, line in zip(places, lines, strict=True)
    ]
    height = 28 + LINE * len(lines)
    width = 28 + round(max(map(len, lines)) * SIZE * 0.602)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img"><title>The tree of a run</title><style>{STYLE}</style>'
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="6"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def _marked(line: str) -> str:
    marked = re.sub("(✓)", r'<tspan class="ok">\1</tspan>', escape(line, quote=False))
    return re.sub("(✗|✕)", r'<tspan class="bad">\1</tspan>', marked)


if __name__ == "__main__":
    PICTURE.write_text(drawn(anyio.run(tree_of_a_run)), encoding="utf-8")
