"""Calls on other processes and machines: placements for `on=`."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
