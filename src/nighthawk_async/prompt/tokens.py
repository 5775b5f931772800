"""Counting tokens, as rarely as possible.

A text of n UTF-8 bytes has at most n tokens, so most checks of small texts need no tokenizer at all; and a
text is read window by window, so most checks of huge texts need only their beginning.

The tokenizer must work without a network. `tiktoken.get_encoding` downloads whatever its cache directory
lacks, so this module looks there first and uses tiktoken only for encodings whose files are present and
complete. The list of these files is kept here. Both tokenizers come with the extra `tokenizers`; without it,
counts are estimates.
"""

import hashlib
import importlib.util
import logging
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..errors import ConfigurationError
from ..lazy_exports import LazyModule
from .encodings import encoding_names, encoding_of_model, has_tiktoken

if TYPE_CHECKING:
    import tiktoken
else:
    tiktoken = LazyModule("tiktoken")  # small texts need no tokenizer

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
"""The files of each encoding, as tiktoken defines them: the URL that names a cache entry; its SHA-256."""

_ORDINARY_VOCABULARY = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
"""Encodings that differ from another in special tokens only, which never occur in counting."""

_BUNDLED_ENCODINGS = frozenset({"cl100k_base", "o200k_base"})
"""Encodings whose vocabulary the package `bpe_openai` contains."""


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
    if not has_tiktoken():
        return None
    encoding = tiktoken.registry.ENCODINGS.get(encoding_name)
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
    """Return the directory of tiktoken's files; None when its cache is switched off."""
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


DEFAULT_ENCODING_NAME = "o200k_base"

_logger = logging.getLogger("nighthawk")

_estimate_was_announced = threading.Event()

_WINDOW = 8_192
"""Characters given to the tokenizer at once, because its cost may be quadratic in a run of letters."""

_SEARCHED_FOR_SEAM = 1_024
"""Characters at the end of a window in which a split point is searched."""

_SEAM = re.compile(r"(?s:.*)[A-Za-z](?=[\x00-&(-@\[-`{-\x7f])")
"""The last letter before an ASCII character that is neither a letter nor an apostrophe."""


class TokenCounter:
    """Counts tokens of one encoding.

    Obtained from `resolve`. The tokenizer itself is loaded when a count first needs it; `load` does it ahead
    of time, which takes some tenths of a second and is safe to call from any thread.

    Args:
        encoding_name: A name that tiktoken knows.
        is_own: Whether the encoding was requested, or is the model's own, so that its absence is worth a
            warning. Counts for other models are estimates with any tokenizer.
    """

    __slots__ = ("_count", "_is_exact", "_is_own", "_lock", "encoding_name")

    def __init__(self, *, encoding_name: str, is_own: bool = True) -> None:
        self.encoding_name = encoding_name
        self._is_own = is_own
        self._lock = threading.Lock()
        self._count: CountTokens | None = None
        self._is_exact = False

    @classmethod
    def resolve(cls, *, encoding_name: str | None, model_name: str) -> "TokenCounter":
        """Find the counter for a configuration; equal arguments give the same counter.

        Args:
            encoding_name: The encoding, or None to choose it by the model's name, with `o200k_base` as the
                default.
            model_name: The model's name at its provider; a leading `provider:` is ignored.

        Raises:
            ConfigurationError: The encoding is named and unknown.

        Source: specification 5.2, `tokenizer_encoding`.
        """
        if encoding_name is not None:
            return _counter(_known_encoding(encoding_name), is_own=True)
        own_name = _encoding_for_model(model_name)
        return _counter(own_name or DEFAULT_ENCODING_NAME, is_own=own_name is not None)

    @property
    def is_loaded(self) -> bool:
        """Whether the tokenizer, or the estimate in its place, is ready; loads nothing."""
        return self._count is not None

    @property
    def is_exact(self) -> bool:
        """Whether counts come from the encoding's own tokenizer; loads it."""
        self.load()
        return self._is_exact

    def load(self) -> None:
        """Load the tokenizer now, without a network; without one, counts become estimates."""
        self._loaded()

    def count(self, text: str) -> int:
        """Count the tokens of a text.

        Exact when a tokenizer is available, except that a text without a split point within several thousand
        characters may be counted a token or so off at each forced split. Otherwise an upper estimate.

        Args:
            text: The text; special tokens in it count as ordinary text.
        """
        count = self._loaded()
        return sum(count(text[start:end]) for start, end in _windows(text))

    def exceeds(self, text: str, limit: int) -> bool:
        """Whether a text has more tokens than a limit.

        Args:
            text: The text. Only as much of it is tokenized as decides the question; often nothing.
            limit: The number of tokens that is still allowed.
        """
        return not _has_at_most_bytes(text, limit) and self.count_up_to(text, limit) is None

    def count_up_to(self, text: str, limit: int) -> int | None:
        """Count the tokens of a text that has no more than a limit; None for one that has.

        Args:
            text: The text. Of one with more tokens, only as much is tokenized as decides that.
            limit: The number of tokens that is still allowed.
        """
        count = self._loaded()
        total = 0
        for start, end in _windows(text):
            total += count(text[start:end])
            if total > limit:
                return None
        return total

    def truncate(self, text: str, limit: int) -> str:
        """Return the longest beginning of a text that fits a limit.

        Args:
            text: The text.
            limit: The number of tokens allowed.
        """
        if _has_at_most_bytes(text, limit):
            return text
        count = self._loaded()
        total = 0
        for start, end in _windows(text):
            tokens = count(text[start:end])
            if total + tokens > limit:
                length = start + self._longest_fit(text[start:end], limit - total)
                return self._shrunk_to_fit(text, length, limit)
            total += tokens
        return text

    def _loaded(self) -> CountTokens:
        count = self._count
        if count is None:
            with self._lock:
                count = self._count
                if count is None:
                    exact = load_offline_tokenizer(self.encoding_name)
                    self._is_exact = exact is not None
                    count = self._count = exact or self._estimate()
        return count

    def _estimate(self) -> CountTokens:
        """The estimate in place of a tokenizer; warns once per process, about the first missing one."""
        from .token_estimate import estimate_tokens  # here: its pattern takes 2 ms, and small texts need none

        if self._is_own and not _estimate_was_announced.is_set():
            _estimate_was_announced.set()
            _logger.warning(
                "The tokenizer %r is not on this machine; token budgets use an estimate. "
                "Install the extra 'tokenizers', or fill tiktoken's cache directory.",
                self.encoding_name,
            )
        return estimate_tokens

    def _longest_fit(self, window: str, limit: int) -> int:
        count = self._loaded()
        fits, too_long = 0, len(window)
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if count(window[:middle]) <= limit:
                fits = middle
            else:
                too_long = middle
        return fits

    def _shrunk_to_fit(self, text: str, length: int, limit: int) -> str:
        # The last window of a prefix may be cut elsewhere than the same window of the whole text.
        while length > 0 and self.exceeds(text[:length], limit):
            length -= 1
        return text[:length]


@lru_cache(maxsize=64)
def _counter(encoding_name: str, *, is_own: bool) -> TokenCounter:
    return TokenCounter(encoding_name=encoding_name, is_own=is_own)


@lru_cache(maxsize=256)
def _encoding_for_model(model_name: str) -> str | None:
    for name in (model_name, model_name.partition(":")[2]):
        if (encoding := encoding_of_model(name)) is not None:
            return encoding
    return None


@lru_cache(maxsize=64)
def _known_encoding(encoding_name: str) -> str:
    names = encoding_names()
    if encoding_name not in names:
        raise ConfigurationError(
            f"Tokenizer encoding {encoding_name!r} is unknown. Known encodings: {', '.join(sorted(names))}."
        )
    return encoding_name


def _has_at_most_bytes(text: str, limit: int) -> bool:
    if len(text) > limit:
        return False
    return text.isascii() or len(text.encode("utf-8", "replace")) <= limit


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Split a text into pieces whose token counts add up to the token count of the whole."""
    start, length = 0, len(text)
    while length - start > _WINDOW:
        end = _last_seam(text, start + _WINDOW)
        yield start, end
        start = end
    if start < length:
        yield start, length


def _last_seam(text: str, end: int) -> int:
    """Find the last place up to `end` where every encoding begins a new token; `end` when there is none.

    All vocabularies split a text by a pattern first. In each of them a run of letters ends before an ASCII
    character that is neither a letter nor an apostrophe, whatever follows.
    """
    seam = _SEAM.match(text, end - _SEARCHED_FOR_SEAM, end + 1)
    return end if seam is None else seam.end()
