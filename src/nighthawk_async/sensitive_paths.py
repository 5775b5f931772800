"""Files that usually hold keys and passwords, by their names. Pure."""

import os
import re
from fnmatch import fnmatchcase

_FOLDERS = frozenset({".aws", ".azure", ".gnupg", ".kube", ".password-store", ".ssh", "gcloud"})
_NAMES = (
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *(".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".htpasswd", ".my.cnf", ".dockercfg", ".s3cfg"),
    *(".boto", ".vault-token", ".git-credentials", "client_secret*.json", "service[-_]account*.json"),
    *("secrets", "secrets.json", "secrets.y*ml", "secrets.toml", "secrets.ini", "secrets.txt"),
)
_SSH_KEY = re.compile(r"id_[^.]+|id_(?:dsa|ecdsa|ed25519|rsa|xmss).*", re.DOTALL)
_CREDENTIALS = "*credentials*"
_CODE = frozenset(
    {".c", ".cc", ".cpp", ".cs", ".css", ".go", ".h", ".hpp", ".html", ".java", ".js", ".jsx", ".kt", ".md"}
    | {".php", ".py", ".pyc", ".pyi", ".rb", ".rs", ".rst", ".scala", ".swift", ".ts", ".tsx", ".vue"}
)
GIT_SETTINGS = frozenset({"config", "config.worktree", "credentials"})
"""The names of files in `.git` that may hold passwords."""


def is_sensitive(path: str) -> bool:
    """Whether a file usually holds keys or passwords, or is in a folder of such files.

    Args:
        path: Its path below a folder; that of a folder ends with a slash.
    """
    parts = [part for part in path.casefold().split("/") if part not in ("", ".")]
    if not parts:
        return False
    name = parts[-1]
    if not _FOLDERS.isdisjoint(parts) or _SSH_KEY.fullmatch(name):
        return True
    if any(fnmatchcase(part, pattern) for pattern in _NAMES for part in parts):
        return True
    if parts[-2:] == [".docker", "config.json"] or (".git" in parts[:-1] and name in GIT_SETTINGS):
        return True
    may_be_code = path.endswith("/") or os.path.splitext(name)[1] in _CODE
    return not may_be_code and any(fnmatchcase(part, _CREDENTIALS) for part in parts)
