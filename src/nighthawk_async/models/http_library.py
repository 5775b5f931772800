"""httpx without its command line. Imported on first use, by the modules that send requests.

`import httpx` also imports its command line, and with that click, rich and Pygments: 95 of the 155 ms of CPU
that it takes, and a quarter of all that a program imports until its first request is sent. So a substitute
replaces the module of the command line while httpx is imported, and `httpx.main` imports it on use.
"""

import sys
from importlib import import_module
from types import ModuleType

__all__ = ["httpx"]

_COMMAND_LINE = "httpx._main"


class _Main:
    """`httpx.main`, which is a click command."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return import_module(_COMMAND_LINE).main(*arguments, **options)

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(_COMMAND_LINE).main, name)


_stand_in = ModuleType(_COMMAND_LINE)
_stand_in.__dict__["main"] = _Main()

if "httpx" not in sys.modules:
    sys.modules.setdefault(_COMMAND_LINE, _stand_in)
try:
    import httpx
finally:
    if sys.modules.get(_COMMAND_LINE) is _stand_in:
        del sys.modules[_COMMAND_LINE]
