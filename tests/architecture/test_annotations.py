"""The annotations of exports can be read by programs: by pydantic, by frameworks, by documentation."""

import importlib
import inspect
import sys
import typing
from collections.abc import Iterator
from subprocess import run

import pytest

from .test_exports import PUBLIC_MODULES


def annotated(value: object) -> Iterator[object]:
    """What has annotations in an export: itself, and the methods that a class defines."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    yield value
    for each in vars(value).values() if inspect.isclass(value) else ():
        function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
        if inspect.isfunction(function):
            yield function


def failure(value: object) -> str | None:
    """How reading the annotations fails; None when it does not."""
    try:
        typing.get_type_hints(value)
        if inspect.isfunction(value):
            inspect.signature(value, eval_str=True)
    except (NameError, TypeError, AttributeError, ImportError) as error:
        return f"{getattr(value, '__qualname__', value)}: {error}"
    return None


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_the_annotations_of_every_export_can_be_read(name: str) -> None:
    module = importlib.import_module(name)
    exports = [getattr(module, each) for each in module.__all__]
    functions = [each for export in exports for each in annotated(export)]
    assert functions
    assert [failed for each in functions if (failed := failure(each)) is not None] == []


@pytest.mark.parametrize("name", ["run", "oversight.get_oversight", "runtime.StepActor.__init__"])
def test_annotations_can_be_read_before_what_they_name_is_loaded(name: str) -> None:
    program = f"import typing, nighthawk_async as nh\ntyping.get_type_hints(nh.{name})"
    result = run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
