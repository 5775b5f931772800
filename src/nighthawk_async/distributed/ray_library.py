"""Ray, imported on first use: importing it takes long, and processes and their programs do without."""

from typing import TYPE_CHECKING

from ..lazy_exports import LazyModule

__all__ = ["ray"]

if TYPE_CHECKING:
    import ray
else:
    ray = LazyModule("ray")
