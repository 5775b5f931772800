"""An estimate of token counts for when no tokenizer is available.

It is calibrated to err upwards on prose, source code and JSON in the vocabularies of current models. It is
not a bound: only the number of UTF-8 bytes is one.
"""

import re

_PIECE = re.compile(
    r"(?P<word>\ ?[A-Z]?[a-z]+)"
    r"|(?P<capitals>\ ?[A-Z]+)"
    r"|(?P<digits>[0-9]{1,3})"
    r"|(?P<space>[ \t\r\n]+)"
    r"|(?P<ascii>[\x00-\x7f])"
    r"|(?P<narrow>[\u0080-\u07ff\u2000-\u206f])"
    r"|(?P<wide>[\u0800-\uffff])"
    r"|(?P<astral>.)",
    re.VERBOSE | re.DOTALL,
)

_WORD_LETTERS_PER_TOKEN = 4
_LONGEST_ORDINARY_WORD = 16
_CAPITALS_PER_TOKEN = 2
_SPACES_PER_TOKEN = 8
_WIDE_TOKENS = 2
_ASTRAL_TOKENS = 3


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, never more than its UTF-8 bytes.

    Args:
        text: The text. The cost is linear in its length.
    """
    total = 0
    for match in _PIECE.finditer(text):
        kind = match.lastgroup
        length = match.end() - match.start()
        if kind == "word":
            total += _estimate_word(length)
        elif kind == "capitals":
            total += -(-length // _CAPITALS_PER_TOKEN)
        elif kind == "space":
            total += -(-length // _SPACES_PER_TOKEN)
        elif kind == "wide":
            total += _WIDE_TOKENS
        elif kind == "astral":
            total += _ASTRAL_TOKENS
        else:
            total += 1
    return total


def _estimate_word(length: int) -> int:
    if length > _LONGEST_ORDINARY_WORD:
        # Not a word but letters at random, which share few tokens with any vocabulary.
        return (2 * length + 2) // 3
    return -(-length // _WORD_LETTERS_PER_TOKEN)
