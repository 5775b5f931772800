"""Calls on other processes and machines: placements for `on=`. Floor 6."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .errors import (
        ArgumentChangedError as ArgumentChangedError,
        CrossingError as CrossingError,
        DistributedError,
        LocalOnlyError as LocalOnlyError,
        RemoteCallError as RemoteCallError,
        WorkerLostError,
        WorkerStartError as WorkerStartError,
    )
    from .processes import Processes
    from .ray_workers import RayWorkers
    from .worker import worker_name
    from .workers import Workers as Workers
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "errors": (
                "ArgumentChangedError",
                "CrossingError",
                "DistributedError",
                "LocalOnlyError",
                "RemoteCallError",
                "WorkerLostError",
                "WorkerStartError",
            ),
            "processes": ("Processes",),
            "ray_workers": ("RayWorkers",),
            "worker": ("worker_name",),
            "workers": ("Workers",),
        },
    )

__all__ = [
    "DistributedError",
    "Processes",
    "RayWorkers",
    "WorkerLostError",
    "worker_name",
]
