"""The optional libraries of credentials."""

from importlib.util import find_spec

from ..errors import ConfigurationError


def is_installed(library: str) -> bool:
    """Whether a library is installed. It is not imported.

    Args:
        library: Its name, with dots.
    """
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # a package above it is missing
        return False


def require_library(library: str, extra: str) -> None:
    """Refuse a credential whose library is not installed.

    Args:
        library: The name of the library, with dots.
        extra: The extra of this package that brings it.

    Raises:
        ConfigurationError: It is not installed.
    """
    if not is_installed(library):
        raise ConfigurationError(
            f"nh.credentials.{extra} needs the extra {extra!r}: pip install 'nighthawk-async[{extra}]'"
        )
