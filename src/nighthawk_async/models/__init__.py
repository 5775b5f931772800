"""Models: settings, capabilities and prices, and the requests, messages and events of a model of one's own.

Floor 4. The modules of this package, which implement the protocol `Model` over HTTP and on this machine, are
private.
"""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
    __name__,
    names={
        "..ports": ("Model",),
        "..types.messages": (
            "AssistantMessage",
            "AudioUrl",
            "BinaryContent",
            "Citation",
            "DocumentUrl",
            "FileUrl",
            "ImageUrl",
            "Message",
            "ProviderContent",
            "ToolCall",
            "ToolDefinition",
            "ToolResult",
            "ToolResultsMessage",
            "UploadedFile",
            "UserContent",
            "UserMessage",
            "VideoUrl",
        ),
        "..types.model": (
            "AnthropicSettings",
            "CacheLifetime",
            "FinishReason",
            "GoogleSettings",
            "ModelCapabilities",
            "ModelEvent",
            "ModelPrice",
            "ModelRequest",
            "ModelSettings",
            "NamedToolChoice",
            "OpenAIChatSettings",
            "OpenAIResponsesSettings",
            "ReasoningControl",
            "ReasoningDelta",
            "ReasoningEffort",
            "ResponseFailed",
            "ResponseFinished",
            "ResponseFormat",
            "TextDelta",
            "ToolCallArgumentsDelta",
            "ToolCallCompleted",
            "ToolCallStarted",
            "ToolChoice",
            "UsageReported",
        ),
        "..types.model_output": ("CitationAdded", "MediaCompleted", "Refusal"),
        "..types.native_tools": (
            "CodeExecution",
            "FileSearch",
            "NativeCallFinished",
            "NativeCallStarted",
            "NativeTool",
            "NativeToolName",
            "UserLocation",
            "WebSearch",
        ),
        "..types.usage": ("Usage",),
    },
)
