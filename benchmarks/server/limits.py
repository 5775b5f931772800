"""How many files a process may have open. It needs the standard library alone."""

__all__ = ["raise_file_limit"]


def raise_file_limit() -> None:
    """Raise the limit of open files as far as the process itself may, where the system has one."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS: "unlimited" is not to be had for this limit
            return
