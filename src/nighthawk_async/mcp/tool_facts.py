"""Tools as their server lists them, and names that Python and providers take."""

import hashlib
import json
import keyword
from collections.abc import Mapping, Sequence
from functools import cached_property

from ..errors import ToolRegistrationError
from ..kernel.tool_sets import valid_tool_name
from ..types.json import is_json_mapping, is_json_object
from .schema_types import Schema, required_of

_WRAPPED = "result"


class ToolFacts:
    """One tool of a server.

    Args:
        name: The name that the server knows it by.
        description: The description; empty for none.
        input_schema: The JSON Schema of the arguments, an object schema.
        output_schema: The JSON Schema of structured results; None for none.
        hints: The annotations of the tool, by their names in the protocol.
        definition: The whole definition, as the server sent it.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        input_schema: Schema,
        output_schema: Schema | None,
        hints: Mapping[str, object],
        definition: Mapping[str, object],
    ) -> None:
        self.name = name
        self.description = description
        self.input_schema: Schema = {"type": "object", **input_schema}
        self.output_schema = output_schema
        self.is_read_only = hints.get("readOnlyHint") is True
        self.is_repeatable = self.is_read_only or hints.get("idempotentHint") is True
        self._definition = definition

    @cached_property
    def digest(self) -> str:
        """The digest of the definition, to which approvals are bound."""
        text = json.dumps(self._definition, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    @cached_property
    def python_name(self) -> str:
        """The name of its method."""
        name = valid_tool_name(self.name).lstrip("_") or "tool"
        name = f"tool_{name}" if name[0].isdigit() else name
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def properties(self) -> Schema:
        """The schemas of its arguments, by name."""
        properties = self.input_schema.get("properties")
        return properties if is_json_mapping(properties) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments that have to be given."""
        return required_of(self.input_schema)

    @cached_property
    def wrapped_schema(self) -> object | None:
        """The schema of the value that servers put into `{"result": …}`; None if they do not."""
        properties: object = None if self.output_schema is None else self.output_schema.get("properties")
        if not is_json_mapping(properties):
            return None
        return properties[_WRAPPED] if list(properties) == [_WRAPPED] else None

    def unwrapped(self, structured: object) -> object:
        """Return a structured result as the value that it is."""
        if self.wrapped_schema is None or not is_json_object(structured):
            return structured
        return structured[_WRAPPED] if list(structured) == [_WRAPPED] else structured


def check_method_names(server: str, tools: Sequence[ToolFacts]) -> None:
    """Check that no two tools have methods of the same name.

    Raises:
        ToolRegistrationError: Two tools have one.
    """
    seen: dict[str, str] = {}
    for tool in tools:
        other = seen.setdefault(tool.python_name, tool.name)
        if other != tool.name:
            raise ToolRegistrationError(
                f"Server {server!r} has two tools whose method would be {tool.python_name!r}: {other!r} and "
                f"{tool.name!r}; leave one of them out with only=…."
            )
