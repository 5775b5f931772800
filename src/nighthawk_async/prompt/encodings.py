"""Names of the encodings of tokens, as tiktoken has them; without it, those that are written here."""

from functools import lru_cache
from importlib.util import find_spec

_MODELS = {
    "o200k_base": ("gpt-5", "gpt-4o", "gpt-4.1", "gpt-4.5", "chatgpt-4o-", "o1", "o3", "o4-mini"),
    "cl100k_base": ("gpt-4", "gpt-3.5", "text-embedding-"),
}
"""The beginnings of the names of models whose encodings are known without tiktoken, most special first."""

_NAMES = frozenset(
    {"cl100k_base", "gpt2", "o200k_base", "o200k_harmony", "p50k_base", "p50k_edit", "r50k_base"}
)


@lru_cache(maxsize=1)
def has_tiktoken() -> bool:
    """Whether tiktoken is installed: it comes with the extra `tokenizers`."""
    return find_spec("tiktoken") is not None


def encoding_of_model(name: str) -> str | None:
    """Return the name of a model's own encoding; None where it is not known.

    Args:
        name: The name of the model at its provider.
    """
    if not has_tiktoken():
        found = (encoding for encoding, beginnings in _MODELS.items() if name.startswith(beginnings))
        return next(found, None)
    from tiktoken.model import encoding_name_for_model

    try:
        return encoding_name_for_model(name)
    except KeyError:
        return None


def encoding_names() -> frozenset[str]:
    """Return the names of all encodings."""
    if not has_tiktoken():
        return _NAMES
    import tiktoken

    return frozenset(tiktoken.list_encoding_names())
