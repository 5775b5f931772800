"""Protocols of providers and kinds of records are tables with one row each; others ask the row."""

import ast
from collections.abc import Iterator
from importlib import import_module
from typing import get_args

import pytest

from nighthawk_async.catalog.protocols import PROTOCOLS, folder_of
from nighthawk_async.catalog.providers import PROVIDERS
from nighthawk_async.journal.records import KINDS, RecordKind
from nighthawk_async.models.protocols import create_batches, create_codec, create_files

from .core_figures import MODULES, SOURCE, imports_of, short

FOLDERS = {path.parent.name for path in (SOURCE / "wire").glob("*/codec.py")}

ROOMS_OF_PROTOCOLS = ("catalog", "wire", "testing")
"""Rooms that may name protocols and providers: their rows, their folders, and servers that speak them."""

OUTSIDE_USERS_OF_FOLDERS = {
    ("coding_agents.claude_protocol", "wire.anthropic.events"),
    ("coding_agents.claude_protocol", "wire.anthropic.response"),
    ("models.local", "wire.openai_chat.codec"),
    # A transport that only this protocol has.
    ("models.websocket_choice", "wire.openai_responses.input"),
    ("models.websocket_lanes", "wire.openai_responses.socket_steering"),
    ("models.websocket_lanes", "wire.openai_responses.socket_turns"),
    ("models.websocket_pool", "wire.openai_responses.socket_steering"),
    ("models.websocket_pool", "wire.openai_responses.socket_turns"),
}
"""Imports of the folder of a protocol from outside of `wire`; the list only shrinks."""

READERS_OF_KINDS = {
    "changed_values",
    "copies",
    "delivery",
    "description",
    "export",
    "diverged_lives",
    "forks",
    "gate",
    "people",
    "recorder",
    "records",
    "replay_journal",
    "run_journal",
    "run_tree",
    "store",
    "store_tree",
}
"""Modules of the journal that distinguish kinds of records by their names; the list only shrinks."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_is_its_folder_and_its_row(protocol: str) -> None:
    facts, folder = PROTOCOLS[protocol], f"nighthawk_async.wire.{folder_of(protocol)}"
    assert create_codec(protocol).name == protocol
    assert facts.batches == "" or callable(type(create_batches(protocol)))
    assert facts.files == "" or callable(type(create_files(protocol)))
    if facts.native_calls:
        assert import_module(f"{folder}.{facts.native_calls}").calls_in(()) == []


def test_every_folder_of_a_protocol_has_a_row_and_every_provider_speaks_one() -> None:
    assert {folder_of(protocol) for protocol in PROTOCOLS} == FOLDERS
    assert {facts.protocol for facts in PROVIDERS.values()} - PROTOCOLS.keys() <= {""}
    assert all(PROTOCOLS[facts.protocol].batches for facts in PROVIDERS.values() if facts.has_batches)
    assert all(PROTOCOLS[facts.protocol].files for facts in PROVIDERS.values() if facts.has_files)


def test_no_code_asks_for_the_name_of_a_protocol_or_provider() -> None:
    """A condition on a name would be one more place to edit for each new protocol."""
    words = {*PROTOCOLS, *FOLDERS, "openai"}
    found = [
        f"{module.name}:{line} {word}"
        for module in MODULES.values()
        if short(module.name).partition(".")[0] not in ROOMS_OF_PROTOCOLS
        for line, word in compared_texts(module.tree)
        if word.rstrip(":-") in words
    ]
    assert found == []


def test_only_few_use_the_folder_of_a_protocol() -> None:
    found = {
        (name, target)
        for each in MODULES
        if not (name := short(each)).startswith("wire.")
        for item in imports_of(each)
        if (target := short(item.target)).startswith(tuple(f"wire.{folder}." for folder in FOLDERS))
    }
    found = {pair for pair in found if pair[0].partition(".")[0] not in ROOMS_OF_PROTOCOLS}
    assert found == OUTSIDE_USERS_OF_FOLDERS


def test_a_kind_of_records_is_one_row() -> None:
    assert tuple(KINDS) == get_args(RecordKind)


def test_few_modules_distinguish_kinds_of_records() -> None:
    found = {
        name.removeprefix("journal.")
        for each, module in MODULES.items()
        if (name := short(each)).startswith("journal.") and distinguishes_kinds(module.tree)
    }
    assert found == READERS_OF_KINDS


def compared_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that code compares with something: by operators, as beginnings, and in cases."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = node.args if node.func.attr in ("startswith", "removeprefix") else []
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        for part in parts:
            for each in ast.walk(part):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.lineno, each.value


def distinguishes_kinds(tree: ast.AST) -> bool:
    """Whether code compares the kind of a record with names of kinds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match) and is_kind(node.subject):
            return True
        if not isinstance(node, ast.Compare) or not any(map(is_kind, (node.left, *node.comparators))):
            continue
        if any(text in KINDS for _, text in compared_texts(node)):
            return True
    return False


def is_kind(expression: ast.expr) -> bool:
    """Whether an expression is the kind of something."""
    return (isinstance(expression, ast.Attribute) and expression.attr == "kind") or (
        isinstance(expression, ast.Name) and expression.id == "kind"
    )
