"""A model request as the body of a Gemini request.

What stays the same during a conversation comes first in the body and always in the same order, so that the
bodies of successive requests share a prefix byte for byte.
"""

from typing import Any

from ..types.model import ModelCapabilities, ModelRequest, NamedToolChoice
from ..types.tools import ToolDefinition
from .google_contents import encode_contents
from .google_schema import adapted_schema, takes_nothing
from .google_settings import encode_settings
from .request_json import request_json
from .tool_choices import check_tool_choice
from .transport_settings import merge_extra_body

__all__ = ["encode_body"]


def encode_body(request: ModelRequest, *, capabilities: ModelCapabilities) -> bytes:
    """The body of a `generateContent` or `streamGenerateContent` request.

    Args:
        request: The request.
        capabilities: What the model can do.

    Raises:
        ConfigurationError: A setting has a bad value or no place in the protocol, the request demands a tool
            call without offering the tool, or it holds content that the protocol cannot carry.
    """
    generation, body = encode_settings(request.settings, capabilities)
    if request.response_format is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = adapted_schema(request.response_format.schema)
    if generation:
        body["generationConfig"] = generation
    if request.system_prompt:
        body["systemInstruction"] = {"parts": [{"text": request.system_prompt}]}
    body |= _encode_tools(request)
    # Models that are told how much to reason by a word are those from Gemini 3 on, which sign their calls.
    signs_calls = capabilities.reasoning and capabilities.reasoning_control == "effort"
    body["contents"] = encode_contents(request.messages, signs_calls=signs_calls)
    return request_json(merge_extra_body(body, request.settings))


def _encode_tools(request: ModelRequest) -> dict[str, Any]:
    check_tool_choice(request)
    choice = request.tool_choice
    if not request.tools:
        return {}
    tools: dict[str, Any] = {
        "tools": [{"functionDeclarations": [_encode_tool(tool) for tool in request.tools]}]
    }
    if choice == "auto":
        return tools
    return tools | {"toolConfig": {"functionCallingConfig": _encode_choice(choice)}}


def _encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if not takes_nothing(tool.parameters):  # the endpoint wants no schema where there is no parameter
        declaration["parametersJsonSchema"] = adapted_schema(tool.parameters)
    return declaration


def _encode_choice(choice: str | NamedToolChoice) -> dict[str, Any]:
    if isinstance(choice, NamedToolChoice):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": "ANY" if choice == "required" else "NONE"}
