"""The floors of the house: a room imports from lower floors only, and no modules form a circle."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from .source_tree import PACKAGE, SOURCE, Module, find_cycle, house_imports, parse_package

FLOORS: Mapping[str, int] = {
    "errors": 0,
    "pickling": 0,
    "types": 0,
    "configuration": 0,
    "lazy_exports": 0,
    "observation": 0,
    "sealed_attributes": 0,
    "secret_names": 0,
    "sensitive_paths": 0,
    "system_calls": 0,
    "shell_words": 1,
    "wrapped_commands": 1,
    "command_risks": 2,
    "threads": 0,
    "tracing": 0,
    "backoff": 0,
    "signatures": 0,
    "suggestions": 0,
    "former_names": 0,
    "executions": 0,
    "causes": 0,
    "placements": 0,
    "confined_files": 1,
    "line_process": 1,
    "process_marks": 0,
    "natural": 1,
    "prompt": 1,
    "wire": 1,
    "catalog": 1,
    "actors": 1,
    "parallel": 1,
    "ports": 2,
    "journal_ports": 2,
    "credentials": 2,
    "telemetry_settings": 2,
    "values": 2,
    "kernel": 3,
    "agent": 4,
    "runtime": 4,
    "policies": 4,
    "models": 4,
    "telemetry": 4,
    "observe": 4,
    "recording": 4,
    "coding_agents": 5,
    "compaction": 5,
    "executors": 5,
    "journal": 5,
    "memory": 5,
    "sandbox": 5,
    "skills": 5,
    "transcripts": 5,
    "functions": 6,
    "runs": 6,
    "scopes": 6,
    "steps": 6,
    "resilience": 6,
    "hooks": 6,
    "human": 6,
    "oversight": 6,
    "testing": 6,
    "asgi": 6,
    "library": 6,
    "mcp": 6,
    "evals": 6,
    "distributed": 6,
    "cli": 6,
    "__init__": 6,
    "__main__": 6,
}
"""The floor of every room."""

FILES = "its own files"
FOLDER_FLOORS: Mapping[str, Mapping[str, int]] = {
    "policies": {
        "people": 0,
        "attempts": 1,
        "budgets": 1,
        "egress": 1,
        "code_levels": 1,
        "hooks": 1,
        "oversight": 1,
        "permissions": 1,
        "shared_objects": 1,
        FILES: 2,
    },
    "prompt": {FILES: 0, "stubs": 1},
    "asgi": {FILES: 0, "dashboard": 1},
    "evals": {FILES: 0, "exports": 1},
    "observe": {FILES: 0, "page": 1},
    "testing": {FILES: 0, "contracts": 1},
    "wire": {FILES: 0, "anthropic": 1, "google": 1, "openai_chat": 1, "openai_responses": 1},
}
"""The floors inside the rooms that have folders. The `__init__` of a room, which joins them, is above all."""

SAME_FLOOR: frozenset[tuple[str, str]] = frozenset(
    {
        ("journal_ports", "ports"),
        ("configuration", "errors"),
        ("configuration", "former_names"),
        ("configuration", "secret_names"),
        ("configuration", "types"),
        ("causes", "pickling"),
    }
    | {("cli", "__init__"), ("__main__", "cli")}
    | {("lazy_exports", "suggestions")}
    | {("functions", "scopes"), ("steps", "functions")}
    | {("observation", "types"), ("types", "errors"), ("errors", "pickling"), ("threads", "executions")}
    | {
        ("__init__", room)
        for room in (
            "asgi",
            "distributed",
            "evals",
            "library",
            "hooks",
            "human",
            "mcp",
            "oversight",
            "resilience",
        )
    }  # joins them
    | {("memory", "journal")}  # a memory stands in the store of a journal
    | {("transcripts", "compaction")}  # a transcript is compacted as conversations of steps are
    | {("executors", "coding_agents")}  # a model id may name one
    | {("mcp", "asgi")}  # a server of MCP is an ASGI application
    | {("cli", "evals"), ("testing", "evals")}  # run evaluations
    | {("cli", "testing")}  # answers that somebody writes
    | {("distributed", "resilience")}  # keeps rate limits for workers
    | {
        (room, shared)
        for room, floor in FLOORS.items()
        for shared in ("functions", "runs", "scopes", "steps")
        if floor == 6 and room not in ("functions", "runs", "scopes", "steps")
    }
)
"""The arrows allowed between rooms of one floor."""

NEVER_IMPORTED = "testing"

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"


def room_of(module: str) -> str:
    """The room a module stands in: the name below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def folder_of(module: Module) -> str:
    """The folder inside its room that a module stands in."""
    parts = module.name.split(".")
    is_in_folder = len(parts) > 3 or (len(parts) == 3 and module.is_package)
    return parts[2] if is_in_folder else FILES


def wrong_arrows_inside(modules: Mapping[str, Module]) -> list[str]:
    """The imports inside a room that go up, or to another folder of the same floor."""
    wrong: list[str] = []
    for module in modules.values():
        room = room_of(module.name)
        if module.name.count(".") < 2:
            continue  # the `__init__` of the room
        for item in house_imports(module, modules):
            folder, target = folder_of(module), folder_of(modules[item.target])
            if room_of(item.target) != room or folder == target:
                continue
            if item.target.count(".") < 2:
                continue
            floors = FOLDER_FLOORS[room]
            if floors[target] >= floors[folder]:
                wrong.append(f"{module.name}:{item.line} imports {item.target}: {folder} -> {target}")
    return wrong


def wrong_arrows(modules: Mapping[str, Module]) -> list[str]:
    """The imports that go up, to another room of the same floor, or to a room nobody may import."""
    wrong: list[str] = []
    for module in modules.values():
        room = room_of(module.name)
        for item in house_imports(module, modules):
            target = room_of(item.target)
            if target == room:
                continue
            is_lower = FLOORS[target] < FLOORS[room]
            is_known = (room, target) in SAME_FLOOR
            if not is_known and (target == NEVER_IMPORTED or not is_lower):
                wrong.append(f"{module.name}:{item.line} imports {item.target}: {room} -> {target}")
    return wrong


def import_graph(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Which module imports which."""
    return {
        name: {item.target for item in house_imports(module, modules)} for name, module in modules.items()
    }


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return parse_package(SOURCE, PACKAGE)


def test_every_room_has_a_floor(modules: dict[str, Module]) -> None:
    rooms = {room_of(name) for name in modules}
    assert "types" in rooms, "the source tree was not found"
    assert rooms == FLOORS.keys()


def test_the_page_about_the_design_shows_every_room_on_its_floor() -> None:
    page = DESIGN.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([0-9]) \| (.*) \|$", page, re.MULTILINE)
    shown = {room: int(floor) for floor, rooms in rows for room in re.findall(r"`(\w+)`", rooms)}
    assert shown == FLOORS


def test_the_page_about_the_design_says_what_every_room_holds() -> None:
    _, _, table = DESIGN.read_text(encoding="utf-8").partition("| room | holds |\n|---|---|\n")
    names = [row.split("|")[1] for row in table.partition("\n\n")[0].splitlines()]
    described = [room for name in names for room in re.findall(r"`(\w+)`", name)]
    assert sorted([*described, "__init__", "__main__"]) == sorted(FLOORS)


def test_every_arrow_goes_to_a_lower_floor(modules: dict[str, Module]) -> None:
    assert wrong_arrows(modules) == []


def test_every_folder_has_a_floor_in_its_room(modules: dict[str, Module]) -> None:
    folders: dict[str, set[str]] = {}
    for module in modules.values():
        if folder_of(module) != FILES:
            folders.setdefault(room_of(module.name), {FILES}).add(folder_of(module))
    assert folders == {room: set(floors) for room, floors in FOLDER_FLOORS.items()}


def test_every_arrow_inside_a_room_goes_to_a_lower_floor(modules: dict[str, Module]) -> None:
    assert wrong_arrows_inside(modules) == []


def test_no_modules_import_each_other_in_a_circle(modules: dict[str, Module]) -> None:
    assert find_cycle(import_graph(modules)) == []


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        pytest.param("types/model.py", "from ..kernel import scope", id="upward"),
        pytest.param("errors.py", "from .types import model", id="sideways on the ground floor"),
        pytest.param("natural/program.py", "from ..prompt.tokens import count", id="sideways"),
        pytest.param("models/local.py", "from ..telemetry import chat", id="sideways on floor four"),
        pytest.param("asgi/__init__.py", "from ..resilience import retry", id="sideways on floor six"),
        pytest.param("mcp/main.py", "from ..testing import scripted", id="testing"),
        pytest.param("kernel/run.py", "def f():\n    from .. import run", id="lazy, the package itself"),
        pytest.param(
            "wire/sse.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..ports import Model",
            id="type-only",
        ),
        pytest.param(
            "prompt/tokens.py",
            "import importlib\ndef f():\n    importlib.import_module('nighthawk_async.kernel.run')",
            id="by name",
        ),
        pytest.param("catalog/local.py", "import nighthawk_async.models.local", id="absolute"),
    ],
)
def test_a_wrong_arrow_is_found(tmp_path: Path, path: str, statement: str) -> None:
    assert len(wrong_arrows(_house(tmp_path, {path: statement}))) == 1


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        pytest.param(
            "configuration.py", "from .errors import A\nfrom .types.model import B", id="configuration"
        ),
        pytest.param("asgi/__init__.py", "from ..functions import natural_function", id="functions"),
        pytest.param("__init__.py", "from .functions import natural_function", id="the package"),
        pytest.param(
            "cli/main.py", "import nighthawk_async as nh\nfrom .. import run", id="the command line"
        ),
        pytest.param("__main__.py", "from .cli import main", id="python -m"),
        pytest.param("kernel/run.py", "from ..ports import Model\nfrom . import step_actor", id="downward"),
    ],
)
def test_an_allowed_arrow_is_allowed(tmp_path: Path, path: str, statement: str) -> None:
    modules = _house(tmp_path, {path: statement})
    assert house_imports(modules[_module_name(path)], modules), "the statement was not seen"
    assert wrong_arrows(modules) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    modules = _house(
        tmp_path,
        {
            "wire/sse.py": "from . import codec",
            "wire/codec.py": "def f():\n    from .chat import g",
            "wire/chat.py": "from .sse import h",
        },
    )
    assert find_cycle(import_graph(modules)) == [
        f"{PACKAGE}.wire.chat",
        f"{PACKAGE}.wire.sse",
        f"{PACKAGE}.wire.codec",
        f"{PACKAGE}.wire.chat",
    ]


def _module_name(path: str) -> str:
    return ".".join([PACKAGE, *path.removesuffix(".py").split("/")]).removesuffix(".__init__")


def _house(root: Path, contents: Mapping[str, str]) -> dict[str, Module]:
    """A house with one module per room, and the given contents."""
    files = {f"{room}.py" if room.startswith("__") else f"{room}/__init__.py": "" for room in FLOORS}
    for room in ("errors", "configuration", "lazy_exports", "ports", "functions"):
        del files[f"{room}/__init__.py"]
        files[f"{room}.py"] = ""
    for path, text in (files | contents).items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return parse_package(root, PACKAGE)
