"""Figures as people read them: in the unit that suits them, three digits each."""

from ..metrics import Unit

__all__ = ["as_bytes", "as_figure", "as_time"]


def as_figure(value: float, unit: Unit) -> str:
    """A value of a metric, with its unit."""
    if unit == "seconds":
        return as_time(value)
    if unit == "bytes":
        return as_bytes(value)
    if unit == "bytes per second":
        return f"{as_bytes(value)}/s"
    if unit == "per second":
        return f"{value:,.0f}/s"
    if unit == "instructions":
        return f"{value / 1e6:.2f} million"
    if unit == "ratio":
        return f"{value:.3g} times"
    return f"{value:,g}"


def as_time(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if _is_one_or_more(seconds * factor):
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def as_bytes(size: float) -> str:
    """A size in the unit that suits it; a kilobyte has 1,000 bytes."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if _is_one_or_more(size / factor):
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def _is_one_or_more(value: float) -> bool:
    """Whether it is when it is shown; else 999.9 of a unit would be shown as 1e+03."""
    return abs(float(f"{value:.3g}")) >= 1
