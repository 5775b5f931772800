"""Files of a workspace that usually hold keys and passwords, and keys in texts, by their look."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..secret_names import is_secret_name
from ..sensitive_paths import GIT_SETTINGS, is_sensitive
from ..wire.redaction import redact

_GIT_ENTERED = ("modules", "worktrees")
_MOST_BYTES = 1_000_000
_URL_PASSWORD = re.compile(r"(?P<scheme>://)[^/?#\s@\"'<>]{1,2000}@")
_SETTING = re.compile(r"(?m)^(?P<name>\s*[\w-]+)(?P<equals>\s*=\s*)(?P<value>.*(?:\\\n.*)*)$")


def find_refusal(path: str) -> str | None:
    """The reason why a file is refused; None for files that are not sensitive.

    Args:
        path: Its path below a folder.
    """
    if not is_sensitive(path):
        return None
    what = "belongs to Git, and its settings may" if ".git" in path.casefold().split("/") else "may"
    return f"{what} hold keys or passwords, so it is refused: only Workspace(…, sensitive=True) allows it"


def hide_keys(text: str) -> str:
    """Put `[redacted]` in place of what looks like a key; the number of lines stays.

    Args:
        text: Any text.
    """
    return redact(text)


def masks_below(root: str, scratch: Path, skipped: Sequence[str]) -> list[tuple[str, str]]:
    """The sensitive files and folders below a folder, each with what a shell gets in its place.

    That is the path of a file, or nothing: an empty folder in place of one, and a file that cannot be opened.
    Settings of Git are replaced by a copy without passwords, as Git needs them. Certificates stay.

    Args:
        root: The folder.
        scratch: The private folder of the shell, for the copies.
        skipped: Paths of folders that the shell does not see.
    """
    masks: dict[str, str] = {}
    for path in _sensitive_paths(root, frozenset(skipped)):
        place = os.path.realpath(path)
        if not place.startswith(root.rstrip("/") + "/") or place in masks or not os.path.exists(place):
            continue
        if os.path.basename(path) in GIT_SETTINGS and ".git" in path.split("/"):
            copy = _copy_without_passwords(place, scratch / f"git-settings-{len(masks)}")
            if copy is not None:
                masks[place] = copy
        elif os.path.isdir(place) or not _has_only_certificates(place):
            masks[place] = ""
    return list(masks.items())


def _sensitive_paths(root: str, skipped: frozenset[str]) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        prefix = "" if below == "." else f"{below}/"
        found = [name for name in folders if is_sensitive(f"{prefix}{name}/")]
        found += [name for name in files if is_sensitive(prefix + name)]
        yield from (os.path.join(folder, name) for name in found)
        entered = [name for name in folders if name not in found and prefix + name not in skipped]
        is_git = os.path.basename(folder) == ".git"
        folders[:] = [name for name in entered if not is_git or name in _GIT_ENTERED]


def _has_only_certificates(path: str) -> bool:
    """Whether a file holds what everybody may know, as the list of authorities that programs need."""
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError:
        return False
    return len(content) <= _MOST_BYTES and b"BEGIN CERTIFICATE" in content and b"PRIVATE KEY" not in content


def _copy_without_passwords(path: str, copy: Path) -> str | None:
    """Write a copy of settings without passwords; None if they have none, empty if it cannot be made."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError:
        return ""
    if len(text) > _MOST_BYTES:
        return ""
    hidden = _SETTING.sub(_without_password, hide_keys(_URL_PASSWORD.sub(r"\g<scheme>[redacted]@", text)))
    if hidden == text:
        return None
    copy.write_text(hidden, encoding="utf-8", errors="surrogateescape")
    return str(copy)


def _without_password(match: re.Match[str]) -> str:
    name = match["name"].strip()
    is_secret = is_secret_name(name) or name.lower() in ("extraheader", "cookiefile", "pass")
    return f"{match['name']}{match['equals']}[redacted]" if is_secret else match[0]
