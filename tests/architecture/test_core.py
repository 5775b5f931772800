"""The core stays closed and short: what it must not have, and figures that must not grow."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from .core_figures import (
    BOUNDS,
    CORE,
    FEATURES_IN_THE_CORE,
    MODULES,
    NO_POLICIES,
    PACKAGE,
    calls_in,
    feature_imports,
    figures,
    imports_of,
    short,
)

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found() -> Mapping[str, int]:
    return figures()


def test_the_core_imports_no_more_features() -> None:
    """A feature that has to open the core shows that a port is missing."""
    assert feature_imports() - FEATURES_IN_THE_CORE == set()


def test_imports_of_features_that_are_gone_are_no_longer_allowed() -> None:
    existing = {module.removeprefix(f"{PACKAGE}.") for module in MODULES}
    assert FEATURES_IN_THE_CORE - feature_imports() == set()
    assert {name for pair in FEATURES_IN_THE_CORE for name in pair} - existing == set()


def test_features_that_are_no_policies_take_part_through_ports_with_a_reason() -> None:
    """Everything else that the core imports is no feature, so that nothing takes part in another way."""
    used = {
        short(item.target)
        for module in MODULES.values()
        if short(module.name).startswith(f"{CORE[0]}.")
        for item in imports_of(module.name)
    }
    assert NO_POLICIES.keys() - used == set()
    assert all(NO_POLICIES.values())


def test_the_kernel_and_the_agent_import_no_feature() -> None:
    assert {pair for pair in feature_imports() if not pair[0].startswith("executors")} == set()


def test_each_context_variable_has_its_reason_beside_it() -> None:
    assert [
        f"{module.name}:{call.lineno}"
        for module in MODULES.values()
        for call in calls_in(module, "ContextVar")
        if not module.lines[call.lineno - 2].startswith("# ")
    ] == []


def test_no_figure_of_the_source_grows(found: Mapping[str, int]) -> None:
    assert {name: value for name, value in found.items() if value > BOUNDS[name]} == {}


def test_the_way_of_a_step_does_not_get_longer() -> None:
    """Changes of file differ a little from run to run, as tasks and network take turns; files do not."""
    command = [
        sys.executable,
        "-m",
        "tests.architecture.step_way",
        "trio",
    ]  # alone: counted from a known state
    result = subprocess.run(command, cwd=TOP, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    ways = json.loads(result.stdout)
    counted = {
        "files of a scripted step": ways["scripted"][0],
        "changes of file of a scripted step": ways["scripted"][1],
        "files of a step over HTTP": ways["http"][0],
        "changes of file of a step over HTTP": ways["http"][1],
    }
    assert {name: value for name, value in counted.items() if value > BOUNDS[name]} == {}
