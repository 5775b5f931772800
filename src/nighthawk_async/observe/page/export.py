"""`view_as_page`: the page that shows a view, as one file of HTML.

The modules of the page become one script: each is a function, which returns the exports of its module. Its
policy names the hashes of that script and of the style, so a browser runs nothing else.
"""

import base64
import hashlib
import html
import json
import re
import time
from collections.abc import Callable
from functools import cache

from ...types.json import JsonableValue
from ..views import NodeView
from .files import ICON, PAGE, STYLES, read_file
from .summaries import Summary, is_own_request, node_details, summarize_node

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_LINKED = re.compile(r"<link [^>]*>\n|<script [^>]*></script>\n")
_FIRST_SCRIPT = "app.js"

_to_json: Callable[[JsonableValue], str] = json.JSONEncoder(separators=(",", ":")).encode  # in ASCII


def view_as_page(view: NodeView, *, title: str = "nighthawk-async", now: float | None = None) -> str:
    """Return the page of the dashboard that shows a node and everything below it, as one file of HTML.

    It opens from a disk, without a server, and loads nothing. The texts of the view stay text, and its policy
    forbids the browser every other script.

        Path("triage.html").write_text(observe.view_as_page(tree.snapshot()), encoding="utf-8")

    Args:
        view: The view.
        title: The title of the page.
        now: The time up to which the durations of nodes count that have not ended, in Unix seconds; None for
            the current time.
    """
    style = "".join(read_file(name).decode() for name in STYLES)
    script = _script()
    icon = base64.b64encode(read_file(ICON)).decode()
    policy = (
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n<style>{style}</style>\n'
    )
    data = _data_of(view, title, time.time() if now is None else now).replace("<", "\\u003c")
    end = (
        f'<script type="application/json" id="recording">{data}</script>\n'
        f'<script type="module">{script}</script>\n'
    )
    page = _LINKED.sub("", read_file(PAGE).decode())
    before_title, _, rest = page.partition("<title>")
    after_title = rest.partition("</title>\n")[2]
    body, _, _ = after_title.rpartition("</body>")
    shown_title = html.escape(title.encode(errors="replace").decode())
    return f"{before_title}{head}<title>{shown_title}</title>\n{body}{end}</body>\n</html>\n"


def _data_of(view: NodeView, title: str, now: float) -> str:
    """Return the data of a page: the beginning of the stream of a dashboard, and the details of each node.

    Each node is encoded by itself: to encode thousands at once would keep all other threads waiting.
    """
    nodes: list[str] = []
    details: list[str] = []
    for node in _shown(view):
        summary = summarize_node(node)
        known = node_details(node)
        if node is view and view.kind != "tree":
            nodes.append(_to_json(_top_of(summary)))
            summary = {**summary, "parent_id": "0"}
        nodes.append(_to_json({**summary, "controls": []}))
        details.append(f"{_to_json(node.id)}:{_to_json({**_without_empty(known), 'controls': []})}")
    greeting: Summary = {"title": title, "can_act": False, "protects_reading": False, "now": now}
    return (
        f'{{"greeting":{_to_json({**greeting, "stream": "recording"})},'
        f'"nodes":[{",".join(nodes)}],"details":{{{",".join(details)}}}}}'
    )


def _shown(view: NodeView) -> list[NodeView]:
    nodes = [view]
    for node in nodes:  # the list grows during the loop
        nodes.extend(child for child in node.children if not is_own_request(child))
    return nodes


def _top_of(summary: Summary) -> Summary:
    """Return the root above a node, with the same figures."""
    figures = {name: summary[name] for name in ("subtree_usage", "subtree_retries") if name in summary}
    known = {name: summary[name] for name in ("began_at", "version")}
    return {"id": "0", "parent_id": None, "kind": "tree", "name": "", "state": "running", **known, **figures}


def _without_empty(details: Summary) -> Summary:
    """Return details without the values that the page fills in, and without what it does not show."""
    left_out = {"usage_by_model", "subtree_usage_by_model", "version", "child_count"}
    return {name: value for name, value in details.items() if value and name not in left_out}


def _hash_of(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def _script() -> str:
    """Return the modules of the page as one script, those that are imported before those that import them."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        if name in modules:
            return
        source = read_file(name).decode()
        for _, imported in _IMPORT.findall(source):
            add(imported)
        names = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r'const {\1} = modules["\2"];\n', source))
        modules[name] = f'modules["{name}"] = (() => {{\n{body}return {{ {names} }};\n}})();\n'

    add(_FIRST_SCRIPT)
    return "const modules = {};\n" + "".join(modules.values())
