"""The value of the setting `code=` that has a model's code run in a sandbox."""

from typing import TYPE_CHECKING

from ..kernel.actor import StepActor
from ..kernel.commands import StepCode
from ..kernel.context import StepContext
from ..lazy_exports import LazyModule
from .settings import SandboxSettings

if TYPE_CHECKING:
    from . import code_runner
else:
    code_runner = LazyModule(f"{__package__}.code_runner")  # needed by the first code of a step


class Sandbox(SandboxSettings):
    """A worker process that runs the code of a block's model, with none of the program's memory.

    Values go in and out by copy. Functions that the block names, and methods of objects that it names, are
    called in the program, under the permissions, approvals, budgets and hooks of the step. Nothing else of
    the program or the machine can be reached: no files, no environment, no network.

    - `"monty"` runs a subset of Python, without inheritance of classes, generators and third-party packages,
      in a few milliseconds, on Linux, macOS and Windows. It needs the extra `sandbox`.
    - `"process"` runs this version of Python, with the packages of this environment, in Bubblewrap (`bwrap`),
      on Linux.

    Each step has a worker of its own from its first code until it ends. Names that code makes are kept for
    the step's further code.

    Args:
        kind: The kind of worker.
        memory: The most memory of the worker, in bytes; by default 64 MiB, and 512 MiB for a process.
        seconds: The most time for one piece of code, in seconds; the time in which it waits for the program
            does not count.
        recursion: The greatest depth of calls.
        calls: The most calls of the program, and readings of its objects, that the code of one step makes.

    Raises:
        ConfigurationError: A limit is not a positive number, or there is no such kind.
    """

    __slots__ = ()

    @property
    def evaluates(self) -> bool:
        """Whether anything that a model writes is evaluated: it is, in the worker."""
        return True

    def step_code(self, actor: StepActor) -> StepCode:
        """Return what runs the code of a step."""
        return code_runner.SandboxedCode(actor, self)

    def note(self, context: StepContext) -> str:
        """Return what the prompt of a step says about the sandbox."""
        return code_runner.note_of(self, context)
