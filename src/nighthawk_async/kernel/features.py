"""The values that features have made active around the caller, in runs and outside of them.

The kernel carries them into steps, tasks and threads without knowing what they are: each room defines
features of its own. Most programs use none, and so have an empty mapping in one context variable.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

Value = TypeVar("Value")

Values: TypeAlias = Mapping["Feature[Any]", object]
_NOTHING: Values = MappingProxyType({})

# One variable for all features. They need not end in the order in which they began, so each puts back its own
# value alone (`test_features.test_features_end_in_any_order`).
_values: ContextVar[Values] = ContextVar("nighthawk_async_features", default=_NOTHING)


class Before(NamedTuple):
    """The state that `Feature.reset` goes back to."""

    token: Token[Values]
    made: Values


class Feature(Generic[Value]):
    """A feature that can be active; defined once, at the top level of a module.

    Args:
        default: Its value where it is not active.
    """

    __slots__ = ("_default",)

    def __init__(self, default: Value) -> None:
        self._default = default

    def get(self) -> Value:
        """Return its value around the caller."""
        found: Any = _values.get().get(self, self._default)
        return found

    def set(self, value: Value) -> Before:
        """Set its value for the caller and what begins from now on; return what `reset` needs."""
        made = {**_values.get(), self: value}
        return Before(_values.set(made), made)

    def reset(self, before: Before) -> None:
        """Set its value as it was before `set`.

        Raises:
            ValueError: It was set in another context.
        """
        here = _values.get()
        _values.reset(before.token)
        if here is not before.made:  # other features began or ended meanwhile
            _values.set({**here, self: self.get()})

    @contextmanager
    def active(self, value: Value) -> Generator[None, None, None]:
        """Have it active with a value during the `with` statement."""
        before = self.set(value)
        try:
            yield
        finally:
            self.reset(before)
