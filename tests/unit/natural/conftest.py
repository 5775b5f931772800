"""A runtime in miniature: transformed functions whose steps answer from a script."""

import contextlib
import importlib.util
import inspect
import itertools
import sys
import textwrap
from collections import deque
from dataclasses import dataclass, field

import anyio.lowlevel
import pytest

from nighthawk_async.natural.transform import transform_function


@dataclass(kw_only=True)
class Answer:
    """How a scripted step ends; has the shape that transformed code asks for."""

    kind: str = "pass"
    bindings: dict = field(default_factory=dict)
    return_value: object = None
    exception: BaseException | None = None


@dataclass(kw_only=True)
class StepCall:
    """One step that a transformed function asked for. `names` leaves out the room's own closure variables."""

    block: object
    names: dict
    text: str | None


class StepScript:
    """Answers steps in order, records them, is the door that calls go through, and the extent of each."""

    def __init__(self):
        self.answers = deque()
        self.calls = []
        self.entered = 0
        self.exited = 0
        self.transformed = {}
        self.is_watched = False
        self.around = None
        self.arguments = []
        self.returned_values = []

    def will(self, kind="pass", **bindings):
        self.answers.append(Answer(kind=kind, bindings=bindings))

    def will_return(self, value, **bindings):
        self.answers.append(Answer(kind="return", return_value=value, bindings=bindings))

    def will_raise(self, exception, **bindings):
        self.answers.append(Answer(kind="raise", exception=exception, bindings=bindings))

    def natural(self, function):
        transformed = transform_function(function)
        self.transformed[function.__qualname__] = transformed

        def run_step(index, python_locals, text):
            names = {
                name: value for name, value in python_locals.items() if not name.startswith("__nighthawk")
            }
            self.calls.append(StepCall(block=transformed.blocks[index], names=names, text=text))
            return self.answers.popleft() if self.answers else Answer()

        async def run_step_async(index, python_locals, text):
            await anyio.lowlevel.checkpoint()
            return run_step(index, python_locals, text)

        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        return transformed.bind(function, run_step=run_step_async if is_async else run_step, call_entry=self)

    def returned(self, value):
        self.returned_values.append(value)
        return value

    concluded = returned

    def fell_off(self):
        return None

    @contextlib.contextmanager
    def __call__(self, arguments):
        self.entered += 1
        if arguments is not None:
            self.arguments.append(
                {name: value for name, value in arguments.items() if not name.startswith("__nighthawk")}
            )
        try:
            yield self
        finally:
            self.exited += 1


@pytest.fixture
def script():
    return StepScript()


@pytest.fixture
def load(script, tmp_path):
    """Import a module from source text or bytes; `natural` is the scripted decorator."""
    numbers = itertools.count()
    names = []

    def load(source):
        name = f"natural_example_{next(numbers)}"
        path = tmp_path / f"{name}.py"
        path.write_bytes(source if isinstance(source, bytes) else textwrap.dedent(source).encode())
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        module.natural = script.natural
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in names:
        del sys.modules[name]
