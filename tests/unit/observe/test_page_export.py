"""Views as files: the page as one file of HTML, and recordings."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async.observe import (
    NodeView,
    TaskTree,
    read_recording,
    view_as_page,
    view_as_recording,
    view_as_text,
)
from nighthawk_async.observe.page.files import SCRIPTS, STYLES, read_file
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>]]>\u2028\ud800"
NOW = 2_000_000_000.0


class Parts(HTMLParser):
    """The scripts, styles and other elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._open = ""
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in self.texts:
            self.texts[self._open].append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])


@pytest.fixture
def tree() -> TaskTree:
    tree = TaskTree()
    run = begin(tree)
    function = run.begin_child("function", EVIL, inputs={"ticket": EVIL})
    step = function.begin_child("step", "shop:4", inputs={"ticket": EVIL, "password": "hunter2"})
    step.write("text", EVIL)
    step.set_usage(Usage(requests=1, input_tokens=7, output_tokens=3), model="small")
    step.end("failed", error=ValueError(EVIL))
    function.begin_child("question", "ask_user", state="waiting")
    begin(tree, "run", "another").end("completed")
    return tree


def function_of(tree: TaskTree) -> NodeView:
    return tree.snapshot("2")


def test_a_page_allows_the_browser_its_own_script_and_style_alone(tree: TaskTree) -> None:
    parts = Parts(view_as_page(tree.snapshot(), title=EVIL))
    policy = next(each["content"] for _, each in parts.elements if "http-equiv" in each) or ""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in ("".join(parts.texts["script"][1:]), "".join(parts.texts["style"]))
    ]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    names = [name for name, _ in parts.elements]
    assert names.index("meta") < names.index("style") < names.index("script")
    assert [each for name, each in parts.elements if name == "script"] == [
        {"type": "application/json", "id": "recording"},
        {"type": "module"},
    ]


def test_a_page_loads_nothing_and_its_values_are_no_markup(tree: TaskTree) -> None:
    page = view_as_page(tree.snapshot(), title=EVIL)
    parts = Parts(page)
    addresses = [each.get("src") or each.get("href") or "" for _, each in parts.elements]
    assert [each[:5] for each in addresses if each] == ["data:"]
    assert not any(name.startswith("on") for _, each in parts.elements for name in each)
    assert "".join(parts.texts["title"]) == EVIL.replace("\ud800", "?")
    assert page.encode()
    assert page.lower().count("<script") == page.lower().count("</script") == 2
    assert parts.data["details"]["3"]["error"]["message"] == EVIL.replace("\ud800", "\ufffd")
    assert "hunter2" not in page


def test_a_page_of_a_node_has_what_is_below_it_and_stands_still(tree: TaskTree) -> None:
    data = Parts(view_as_page(function_of(tree), now=NOW)).data
    shown = [(node["id"], node["parent_id"]) for node in data["nodes"]]
    assert shown == [("0", None), ("2", "0"), ("3", "2"), ("4", "2")]
    assert data["nodes"][0]["subtree_usage"] == data["nodes"][1]["subtree_usage"]
    assert {"now": NOW, "can_act": False}.items() <= data["greeting"].items()
    assert all(node.get("controls", []) == [] for node in data["nodes"])
    whole = Parts(view_as_page(tree.snapshot())).data
    assert [node["id"] for node in whole["nodes"]] == ["0", "1", "5", "2", "3", "4"]


def test_every_module_of_the_page_is_in_the_script_of_a_file() -> None:
    page = view_as_page(TaskTree().snapshot())
    joined = "".join(read_file(name).decode() for name in STYLES)
    assert joined in page
    for name in SCRIPTS:
        source = read_file(name).decode()
        assert f'modules["{name}"] = (() => {{' in page
        assert "</script" not in source.lower()
        assert "<!--" not in source
    script = Parts(page).texts["script"][-1]
    assert re.findall(r"^\s*(?:import|export)\b.*", script, re.MULTILINE) == []


def test_a_recording_of_a_node_is_read_again(tree: TaskTree, tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text(view_as_recording(function_of(tree), now=NOW), encoding="utf-8")
    recording = read_recording(path)
    assert (recording.is_complete, recording.until) == (True, NOW)
    (view,) = recording.snapshot().children
    assert view_as_text(view, now=NOW) == view_as_text(function_of(tree), now=NOW)
    assert view.subtree_usage_by_model == function_of(tree).subtree_usage_by_model


def test_a_recording_of_everything_is_read_again(tree: TaskTree, tmp_path: Path) -> None:
    path = tmp_path / "whole.jsonl"
    path.write_text(view_as_recording(tree.snapshot(), now=NOW), encoding="utf-8")
    read = read_recording(path).snapshot()
    assert view_as_text(read, now=NOW) == view_as_text(tree.snapshot(), now=NOW)
    shown = [(view.inputs, view.error, view.transcript) for view in read.walk()]
    assert shown == [(view.inputs, view.error, view.transcript) for view in tree.snapshot().walk()]
    assert "hunter2" not in path.read_text()
