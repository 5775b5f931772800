"""Processes that run tests side by side compile them once."""

import os
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.bytecode import compile_test


def test_what_is_compiled_beforehand_is_what_pytest_imports(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    path = tmp_path / "test_one.py"
    path.write_text("def test_one():\n    assert 1 + 1 == 2\n", encoding="utf-8")
    compile_test(path, pytestconfig)
    (compiled,) = rewrite.get_cache_dir(path).iterdir()
    code = rewrite._read_pyc(path, compiled)
    assert code is not None, "pytest has other functions now: see tests/bytecode.py"
    assert "@pytest_ar" in code.co_names, "assertions do not explain themselves"
    path.write_text("def test_one():\n    assert 1 + 1 == 2 and 3\n", encoding="utf-8")
    os.utime(path, (0, 0))
    assert rewrite._read_pyc(path, compiled) is None


def test_what_cannot_be_compiled_is_left_to_the_import(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    path = tmp_path / "test_one.py"
    path.write_text("def test_one(:\n", encoding="utf-8")
    compile_test(path, pytestconfig)
    assert not rewrite.get_cache_dir(path).exists()
