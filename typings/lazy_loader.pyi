"""What the package's own modules use of lazy_loader, which comes without types."""

from collections.abc import Callable, Iterable, Mapping

def attach(
    package_name: str,
    submodules: Iterable[str] | None = None,
    submod_attrs: Mapping[str, Iterable[str]] | None = None,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]: ...
