"""What runs with every change, what weekly, and what on a second Python."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from tests.long_first import LONG, DurationKeeper
from tests.seeds import seed_of
from tests.weekly import ONE_IN, keep_cases_of_every_change, keep_one_case

PROJECT = Path(__file__).parents[2]
TABLE = next(iter(ONE_IN))


def items_of(*names: str, weekly: tuple[str, ...] = ()) -> Any:
    def marker_of(name: str) -> Any:
        return lambda marker: marker if marker == "weekly" and name in weekly else None

    return [SimpleNamespace(nodeid=name, get_closest_marker=marker_of(name)) for name in map(str, names)]


class Config:
    """As much of pytest's as the choice of tests reads."""

    def __init__(self, *args: str, **options: bool) -> None:
        self.args, self.options, self.left_out = args, options, []
        self.hook = SimpleNamespace(pytest_deselected=lambda items: self.left_out.extend(items))

    def getoption(self, name: str) -> bool:
        return self.options.get(name.removeprefix("--").replace("-", "_"), False)


def kept_of(keep: Any, config: Config, names: list[str], **choices: Any) -> list[str]:
    items = [Hashable(each) for each in items_of(*names, **choices)]
    keep(config, items)
    assert len(items) + len(config.left_out) == len(names)
    return [each.nodeid for each in items]


class Hashable:
    """A namespace that stands in a set."""

    def __init__(self, item: Any) -> None:
        self.nodeid, self.get_closest_marker = item.nodeid, item.get_closest_marker


def test_weekly_tests_and_most_cases_of_long_tables_run_only_when_all_are_asked_for() -> None:
    table = [f"{TABLE}test_x.py::test_table[{number}]" for number in range(7)]
    names = [*table, f"{TABLE}test_x.py::test_single", "tests/a.py::test_rare", "tests/a.py::test_often[1]"]
    weekly = ("tests/a.py::test_rare",)
    kept = kept_of(keep_cases_of_every_change, Config(), names, weekly=weekly)
    first = crc32(f"{TABLE}test_x.py::test_table".encode()) % ONE_IN[TABLE]
    assert kept == [*table[first :: ONE_IN[TABLE]], names[-3], names[-1]]
    assert kept_of(keep_cases_of_every_change, Config(all_cases=True), names, weekly=weekly) == names
    assert kept_of(keep_cases_of_every_change, Config(names[-2]), names, weekly=weekly) == [
        *kept[:-1],
        *names[-2:],
    ]


def test_on_a_second_python_each_function_has_one_case_and_event_loops_take_turns() -> None:
    names = [f"a.py::test_{number}[{loop}]" for number in range(40) for loop in ("asyncio", "trio")]
    kept = kept_of(keep_one_case, Config(one_case=True), names)
    assert len({name.partition("[")[0] for name in kept}) == len(kept) == 40
    assert {name.partition("[")[2] for name in kept} == {"asyncio]", "trio]"}
    assert kept_of(keep_one_case, Config(), names) == names


@pytest.mark.parametrize("name", [*ONE_IN, *LONG])
def test_what_tables_of_tests_name_is_there(name: str) -> None:
    path, _, function = name.partition("::")
    assert (PROJECT / path).exists()
    if function:
        tree = ast.parse((PROJECT / path).read_text(encoding="utf-8"))
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        assert function in {each.name for each in ast.walk(tree) if isinstance(each, functions)}


def test_durations_of_long_functions_are_kept_and_what_was_not_run_stays(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    file.write_text(json.dumps({"old.py::test": 9, "new.py::test_short_now": 8}))
    keeper = DurationKeeper(file)
    for name, seconds in (
        ("new.py::test_long[1]", 6.2),
        ("new.py::test_long[2]", 5),
        ("new.py::test_short_now", 1),
    ):
        keeper.pytest_runtest_logreport(SimpleNamespace(nodeid=name, duration=seconds))  # type: ignore[arg-type]
    keeper.pytest_sessionfinish()
    assert list(json.loads(file.read_text()).items()) == [("new.py::test_long", 11), ("old.py::test", 9)]


def test_the_seed_of_a_test_is_the_same_in_every_run_but_when_all_cases_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def seeds(**options: bool) -> set[int]:
        node = SimpleNamespace(nodeid="a.py::test")
        request: Any = SimpleNamespace(node=node, config=Config(**options))
        return {seed_of(request, "NIGHTHAWK_TEST_SEED") for _ in range(3)}

    assert len(seeds()) == 1
    assert f"NIGHTHAWK_TEST_SEED={seeds().pop()}" in capsys.readouterr().out
    assert len(seeds(all_cases=True)) == 3
    monkeypatch.setenv("NIGHTHAWK_TEST_SEED", "7")
    assert seeds(all_cases=True) == {7}
