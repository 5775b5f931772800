"""The end of an error about what a model lacks: what its reader can do.

The catalog cannot know every model, so whoever knows better can say so; and some models lack a thing only
because of the protocol through which they were asked.
"""

from ..catalog.models import find_model_facts


def remedy(model_id: str, capability: str, value: object = True) -> str:
    """Return the remedy for a missing capability, as the end of an error's message.

    Args:
        model_id: The model, `provider:name`.
        capability: A field of `ModelCapabilities`.
        value: The value that the field would need.
    """
    other = _other_way(model_id, capability)
    way = "" if other is None else f" Through another protocol it is otherwise: use {other}."
    setting = f"capabilities={{{capability!r}: {value!r}}}"
    return f"{way} If that is wrong, correct it with the model setting {setting}."


def _other_way(model_id: str, capability: str) -> str | None:
    """The id by which another provider serves the model with that capability, when one does."""
    provider = find_model_facts(model_id).more_through
    if not provider:
        return None
    other = f"{provider}:{model_id.partition(':')[2]}"
    return other if getattr(find_model_facts(other).capabilities, capability) else None
