"""The settings of a sandbox."""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ..errors import ConfigurationError
from ..types.code import CodeLevel

SandboxKind: TypeAlias = Literal["monty", "process"]

_MEMORY = {"monty": 64 * 2**20, "process": 512 * 2**20}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings(CodeLevel):
    """The settings of a sandbox; see `declaration.Sandbox`."""

    kind: SandboxKind = "monty"
    memory: int | None = None
    seconds: float = 5.0
    recursion: int = 500
    calls: int = 10_000

    def __post_init__(self) -> None:
        if self.kind not in get_args(SandboxKind):
            kinds = " or ".join(map(repr, get_args(SandboxKind)))
            raise ConfigurationError(f"Sandbox(kind=…) is {kinds}, not {self.kind!r}")
        for name in ("memory", "seconds", "recursion", "calls"):
            value: object = getattr(self, name)
            if value is None and name == "memory":
                continue
            allowed = int | float if name == "seconds" else int
            if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < float("inf"):
                raise ConfigurationError(f"Sandbox({name}=…) is a positive number, not {value!r}")

    @property
    def memory_bytes(self) -> int:
        """The most memory of the worker, in bytes."""
        return _MEMORY[self.kind] if self.memory is None else self.memory
