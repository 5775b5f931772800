"""The deny-only YAML head of a natural program.

Splits it from the program and says which outcome kinds it denies (specification 8.4). What the syntax around
a block allows is not its business.
"""

from typing import cast

from ..types.outcomes import OUTCOME_KINDS, OutcomeKind

__all__ = ["split_frontmatter"]

_DELIMITER = "---"


def split_frontmatter(text: str) -> tuple[frozenset[OutcomeKind], str]:
    """Split the frontmatter, when there is one, from the program behind it.

    Args:
        text: The program after sentinel removal and dedent.

    Returns:
        The denied outcome kinds, and the text without frontmatter and without the blank lines before it.

    Raises:
        ValueError: There is frontmatter, and it is malformed; the message says how.
    """
    lines = text.split("\n")
    opening = next((index for index, line in enumerate(lines) if line.strip()), None)
    if opening is None or lines[opening] != _DELIMITER:
        return frozenset(), text
    try:
        closing = lines.index(_DELIMITER, opening + 1)
    except ValueError:
        raise ValueError("the frontmatter is not terminated: no second line that is exactly '---'") from None
    denied_kinds = _denied_kinds(_load_yaml("\n".join(lines[opening + 1 : closing])))
    return denied_kinds, "\n".join(lines[closing + 1 :])


def _load_yaml(text: str) -> object:
    # Most blocks have no frontmatter, so the library is loaded by the first that does.
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return cast("object", yaml.load(text, Loader=loader))  # a safe loader either way
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        # PyYAML lets plain Python errors out of its constructors of scalars: `!!bool x`, `2001-99-99`.
        reason = " ".join(str(error).split())
        raise ValueError(f"the frontmatter is not valid YAML: {reason}") from error


def _denied_kinds(document: object) -> frozenset[OutcomeKind]:
    if not isinstance(document, dict):
        raise ValueError("the frontmatter must be a YAML mapping with the key 'deny'")
    mapping = cast("dict[object, object]", document)
    unknown_keys = [key for key in mapping if key != "deny"]
    if unknown_keys:
        raise ValueError(
            f"the frontmatter has unknown keys: {', '.join(map(repr, unknown_keys))}; it may hold 'deny'"
        )
    if "deny" not in mapping:
        raise ValueError("the frontmatter must have the key 'deny'")
    return frozenset(_outcome_kind(name) for name in _strings(mapping["deny"]))


def _strings(value: object) -> list[str]:
    names = cast("list[object]", value) if isinstance(value, list) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ValueError("'deny' in the frontmatter must be a sequence of strings")
    return cast("list[str]", names)


def _outcome_kind(name: str) -> OutcomeKind:
    for kind in OUTCOME_KINDS:
        if kind == name:
            return kind
    raise ValueError(
        f"the frontmatter denies {name!r}, which is no outcome; outcomes are {', '.join(OUTCOME_KINDS)}"
    )
