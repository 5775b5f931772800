"""The default `prompt_cache_key` of OpenAI's protocols: the same for all requests of one block to one model.

Requests with the same key reach the same cache. Compatible servers may refuse the field, so it is sent only
to models whose capabilities say so.

Source: "Prompt caching" of the OpenAI platform documentation; keys have at most 64 characters.
"""

from functools import lru_cache
from hashlib import sha256

from ..types.model import ModelCapabilities, ModelRequest

_DIGITS = 32


def default_cache_key(
    request: ModelRequest, *, model_name: str, capabilities: ModelCapabilities
) -> dict[str, str]:
    """The field of a request's body; none where the settings have one, None included.

    Args:
        request: The request.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model.
    """
    if not request.site or not capabilities.prompt_cache_key or "prompt_cache_key" in request.settings:
        return {}
    return {"prompt_cache_key": _key_of(request.site, model_name)}


@lru_cache(maxsize=1024)
def _key_of(site: str, model_name: str) -> str:
    digest = sha256(f"{site}\0{model_name}".encode(errors="surrogatepass")).hexdigest()
    return f"nighthawk-{digest[:_DIGITS]}"
