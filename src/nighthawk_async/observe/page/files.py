"""The files of the page, by name. They are part of the package."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

PAGE = "index.html"

_STYLE = "text/css; charset=utf-8"
_SCRIPT = "text/javascript; charset=utf-8"

STYLES = ("theme.css", "layout.css", "tree.css", "details.css", "chart.css", "evaluation.css", "memory.css")
"""The style sheets, in the order in which they apply."""

SCRIPTS = (
    "actions.js",
    "address.js",
    "app.js",
    "budgets.js",
    "chart.js",
    "chart_series.js",
    "chart_table.js",
    "connection.js",
    "details.js",
    "dialogs.js",
    "dom.js",
    "evaluation.js",
    "evaluation_matrix.js",
    "event_stream.js",
    "export_menu.js",
    "facts.js",
    "filters.js",
    "format.js",
    "keyboard.js",
    "memory.js",
    "question_form.js",
    "recorded.js",
    "row_elements.js",
    "rows.js",
    "search.js",
    "source.js",
    "states.js",
    "storage.js",
    "store.js",
    "subtrees.js",
    "summary.js",
    "tables.js",
    "theme.js",
    "token.js",
    "transcript.js",
    "tree_view.js",
    "waterfall.js",
)

ICON = "icon.svg"

CONTENT_TYPES: Mapping[str, str] = {
    PAGE: "text/html; charset=utf-8",
    ICON: "image/svg+xml",
    **dict.fromkeys(STYLES, _STYLE),
    **dict.fromkeys(SCRIPTS, _SCRIPT),
}
"""The content types of the files, by name."""


@cache
def read_file(name: str) -> bytes:
    """Return a file of the page.

    Args:
        name: Its name, one of `CONTENT_TYPES`.
    """
    return (files(__name__.rpartition(".")[0]) / "static" / name).read_bytes()
