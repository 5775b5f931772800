"""The program's main module on a worker, as in `multiprocessing`: loaded once, under another name.

A program that starts placements at the top level of its main module guards that with
`if __name__ == "__main__":`, because workers load the module, too.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..errors import NighthawkError

_ON_WORKERS = "__mp_main__"


def describe_main() -> tuple[str | None, str | None]:
    """Return the name of the program's main module for imports, or its file; None for what it lacks."""
    main = sys.modules["__main__"]
    sys.modules[_ON_WORKERS] = main  # the module of what workers send back
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None and spec.name not in ("", _ON_WORKERS):  # on a worker, a script has that name
        return (None, None) if _is_command(spec.name) else (spec.name, None)
    is_script = file is not None and str(file).endswith(".py")
    return None, str(Path(str(file)).resolve()) if is_script else None


def main_problem() -> str:
    """Return the reason why workers have no functions of the main module; empty if they have them."""
    if describe_main() != (None, None):
        return ""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return f"workers do not load {spec.name}, which starts the program"
    if file is None:
        return "it was defined in an interactive session"
    return f"workers load only files whose names end with .py, and not {file}"


def import_paths() -> list[str]:
    """Return the places from which the program imports modules, in a form for other processes."""
    return [os.path.abspath(each) for each in sys.path]


def _is_command(name: str) -> bool:
    """Whether a main module only starts programs of others, such as `python -m pytest`."""
    return name.endswith("__main__")


def load_main(name: str | None, file: str | None, arguments: list[str]) -> None:
    """Load the program's main module on a worker.

    Args:
        name: Its name for imports; None for none.
        file: Its file, if it has no name; None for none.
        arguments: The arguments of the program, which the module may read while it is loaded.

    Raises:
        NighthawkError: It cannot be loaded.
    """
    sys.argv[:] = arguments
    if name is None and (file is None or not os.path.exists(file)):
        return
    try:
        module = _load_module(name) if name is not None else _load_file(str(file))
    except BaseException as error:  # the user's code may exit
        raise NighthawkError(
            f"the main module {name or file} cannot be loaded on a worker: {type(error).__name__}: {error}. "
            'Put what starts the program behind `if __name__ == "__main__":`.'
        ) from error
    sys.modules["__main__"] = sys.modules[_ON_WORKERS] = module


def _load_module(name: str) -> ModuleType:
    """Load a module that has a name for imports, so that its classes are of the main module here, too."""
    spec = find_spec(name)
    if spec is None or not str(spec.origin).endswith(".py"):
        return import_module(name)
    return _load_file(str(spec.origin), spec)


def _load_file(file: str, known_as: ModuleSpec | None = None) -> ModuleType:
    spec = spec_from_file_location(_ON_WORKERS, file)
    assert spec is not None, "the name of a file of Python code ends with .py"
    assert spec.loader is not None, "a file of Python code has a loader"
    module = sys.modules[_ON_WORKERS] = module_from_spec(spec)
    if known_as is not None:  # relative imports are those of its package
        module.__spec__, module.__package__ = known_as, known_as.parent
    spec.loader.exec_module(module)
    return module
