"""The tutorial's block is improved for real: on the embedded model, where this machine has its weights."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import anyio
import pytest

from nighthawk_async.evals import improve, load_cases
from tests.docs.examples import pages_of
from tests.faults.test_local_real_server import NAME, pytestmark

__all__ = ["pytestmark"]

PROJECT = Path(__file__).parents[2]
WORDING = "Set <:label> to the sentiment of the product review <review>: positive or negative."


def _written(folder: Path) -> ModuleType:
    """Write the files of the page, and import its block."""
    page = next(page for page in pages_of(PROJECT) if page.name == "docs/evals-tutorial.md")
    for block in page.blocks:
        if block.kind == "file":
            (folder / block.file).write_text(block.text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("block_of_the_tutorial", folder / "block.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# tests/unit/evals improve blocks on scripted answers, and test_demo_evaluation evaluates on this model.
@pytest.mark.weekly
async def test_the_block_of_the_tutorial_is_improved(tmp_path: Path) -> None:
    module = _written(tmp_path)
    with anyio.fail_after(480):
        improvement = await improve(
            module.classify,
            load_cases(tmp_path / "reviews.csv")[:12],
            wordings=[WORDING],
            proposals=0,
            examples=0,
            model=f"local:{NAME}",
            folder=tmp_path / "improvement",
        )
    assert improvement.wording == WORDING
    assert improvement.comparison is not None
    assert improvement.comparison.difference > 0
    assert improvement.usage.requests == 24
    assert f"+    {WORDING}" in improvement.diff
