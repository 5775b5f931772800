"""Ids of tool calls in the form that an endpoint takes.

A conversation may have begun with another model, whose ids are longer or hold other characters. The same id
always becomes the same, in calls and results and in every later request, and different ids stay different.
"""

import re
from functools import lru_cache
from hashlib import sha256

from ..types.endpoint_rules import CallIdRule

_DIGEST_DIGITS = 16
_LETTERS_AND_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NOT_IN_ID = re.compile("[^a-zA-Z0-9_-]")


@lru_cache(maxsize=1024)
def fitting_id(call_id: str, rule: CallIdRule) -> str:
    """The id as the endpoint takes it.

    Args:
        call_id: The id.
        rule: The rule of the endpoint.
    """
    if re.fullmatch(rule.pattern, call_id):
        return call_id
    digest = sha256(call_id.encode(errors="surrogatepass"))
    if rule.has_prefix:
        beginning = _NOT_IN_ID.sub("_", call_id)[: rule.length - _DIGEST_DIGITS - 1]
        return f"{beginning}_{digest.hexdigest()[:_DIGEST_DIGITS]}"
    number, letters = int.from_bytes(digest.digest()), ""
    while len(letters) < rule.length:
        number, place = divmod(number, len(_LETTERS_AND_DIGITS))
        letters += _LETTERS_AND_DIGITS[place]
    return letters
