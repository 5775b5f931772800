"""OpenTelemetry's conventions for generative AI: spans, attributes and metrics.

The spans of specification 10.1 are in `spans`. Below `nighthawk.step_executor` are
`invoke_agent`, and below that `chat` for each model request and `execute_tool` for each tool call.
"""
