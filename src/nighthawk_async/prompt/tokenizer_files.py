"""Finding a tokenizer that works without a network.

`tiktoken.get_encoding` downloads whatever its cache directory lacks, so this module looks there first and
asks tiktoken only for encodings whose files are present and whole. Which files those are is data, kept here.
"""

import hashlib
import importlib
import importlib.util
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

__all__ = ["CountTokens", "load_offline_tokenizer"]

CountTokens: TypeAlias = Callable[[str], int]
"""Counts the tokens of a text exactly. Special tokens in the text count as ordinary text."""

_PUBLIC = "https://openaipublic.blob.core.windows.net/"

_ENCODING_FILES: dict[str, tuple[tuple[str, str], ...]] = {
    "gpt2": (
        (
            _PUBLIC + "gpt-2/encodings/main/vocab.bpe",
            "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        ),
        (
            _PUBLIC + "gpt-2/encodings/main/encoder.json",
            "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        ),
    ),
    "r50k_base": (
        (
            _PUBLIC + "encodings/r50k_base.tiktoken",
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        ),
    ),
    "p50k_base": (
        (
            _PUBLIC + "encodings/p50k_base.tiktoken",
            "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
        ),
    ),
    "cl100k_base": (
        (
            _PUBLIC + "encodings/cl100k_base.tiktoken",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        ),
    ),
    "o200k_base": (
        (
            _PUBLIC + "encodings/o200k_base.tiktoken",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        ),
    ),
}
"""The files of each encoding, as tiktoken knows them: the address that names a cache entry; its SHA-256."""

_ORDINARY_VOCABULARY = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
"""Encodings that differ from another in special tokens only, which never occur in counting."""

_BUNDLED_ENCODINGS = frozenset({"cl100k_base", "o200k_base"})
"""Encodings whose vocabulary the package `bpe_openai` carries along."""


def load_offline_tokenizer(encoding_name: str) -> CountTokens | None:
    """Load the tokenizer of an encoding if that needs no network.

    Args:
        encoding_name: A name that tiktoken knows.

    Returns:
        A function that counts tokens exactly, or None when the vocabulary is not on this machine.
    """
    ordinary_name = _ORDINARY_VOCABULARY.get(encoding_name, encoding_name)
    return _from_tiktoken(ordinary_name) or _from_bundle(ordinary_name)


def _from_tiktoken(encoding_name: str) -> CountTokens | None:
    import tiktoken
    from tiktoken.registry import ENCODINGS

    encoding = ENCODINGS.get(encoding_name)
    if encoding is None:
        if not _files_are_cached(encoding_name):
            return None
        encoding = tiktoken.get_encoding(encoding_name)
    encode = encoding.encode_ordinary
    return lambda text: len(encode(text))


def _from_bundle(encoding_name: str) -> CountTokens | None:
    if encoding_name not in _BUNDLED_ENCODINGS or importlib.util.find_spec("bpe_openai") is None:
        return None
    with warnings.catch_warnings():
        # The package reads its data through a function that some Python versions call deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        bundle = importlib.import_module("bpe_openai")
        encode: Callable[[str], list[int]] = bundle.get_encoding(encoding_name).encode_ordinary
    return lambda text: len(encode(text))


def _files_are_cached(encoding_name: str) -> bool:
    directory = _cache_directory()
    files = _ENCODING_FILES.get(encoding_name)
    if directory is None or files is None:
        return False
    return all(
        _has_digest(directory / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest(), digest)
        for address, digest in files
    )


def _cache_directory() -> Path | None:
    """Tell where tiktoken keeps its files; None when its cache is switched off."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        directory = os.environ.get(variable)
        if directory is not None:
            return Path(directory) if directory else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _has_digest(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except OSError:
        return False
