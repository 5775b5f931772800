"""The commit of a working tree, read from the files of Git: nothing is run."""

from pathlib import Path

_DIGITS = frozenset("0123456789abcdef")
_MOST_LINKS = 8


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder or above it; None where there is none.

    Args:
        folder: The folder. Changes that are not committed are not seen.
    """
    try:
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # of a worktree, or of a submodule
                git = place / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            if (git / "HEAD").is_file():
                return _resolved(git)
    except (OSError, UnicodeDecodeError):
        return None
    return None


def _resolved(git: Path) -> str | None:
    common = git / "commondir"  # in a worktree, references are those of the repository
    folders = [git, git / common.read_text(encoding="utf-8").strip()] if common.is_file() else [git]
    text = (git / "HEAD").read_text(encoding="utf-8").strip()
    for _ in range(_MOST_LINKS):
        if not text.startswith("ref:"):
            return text if len(text) >= 40 and _DIGITS.issuperset(text) else None
        text = _reference(folders, text.removeprefix("ref:").strip())
    return None


def _reference(folders: list[Path], name: str) -> str:
    if ".." in name or name.startswith("/"):
        return ""
    for folder in folders:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").strip()
        packed = folder / "packed-refs"
        lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
        found = next((line for line in lines if line.endswith(f" {name}")), "")
        if found:
            return found.partition(" ")[0]
    return ""
