"""Natural-language blocks in Python as structured-concurrency actors, on Trio or asyncio.

Packages by floor, lowest first; each imports only from lower floors (`tests/architecture/test_floors.py`):

    0  errors, pickling, types, secret_names, configuration, observation, tracing, executions, threads,
       backoff, lazy_exports, suggestions
    1  natural, prompt, wire, catalog, actors, parallel
    2  ports
    3  runtime
    4  policies, models, telemetry, observe, recording
    5  executors
    6  functions, runs, scopes, steps, hooks, human, oversight, resilience, asgi, testing, cli,
       and this module

Exports are loaded on first use: a program that defines no budget, asks no person and starts no actor does not
import the code for these. Type checkers read `__init__.pyi`, which lists the same names.
"""

from .lazy_exports import LazyModule, attach_exports
from .tracing import offer_tracing

_load, __dir__, __all__ = attach_exports(
    __name__,
    submodules=("actors", "asgi", "hooks", "human", "observe", "oversight", "parallel", "resilience"),
    names={
        "configuration": (
            "LoopGuard",
            "StepContextLimits",
            "StepExecutorConfiguration",
            "StepPromptTemplates",
        ),
        "errors": (
            "AnnotationError",
            "AnswerTimeoutError",
            "ApprovalDeniedError",
            "ApprovalExpiredError",
            "BudgetExceededError",
            "ConfigurationError",
            "ConnectTimeoutError",
            "ErrorKind",
            "ExecutionError",
            "FirstEventTimeoutError",
            "HookError",
            "HumanError",
            "IdleTimeoutError",
            "MissingCredentialError",
            "ModelConnectionError",
            "ModelError",
            "ModelProtocolError",
            "ModelProviderError",
            "ModelStatusError",
            "ModelTimeoutError",
            "NaturalParseError",
            "NestedStepLimitError",
            "NighthawkError",
            "NoHumanError",
            "RepeatedToolCallError",
            "RequestTimeoutError",
            "StepAbortedError",
            "StepEndedError",
            "StepLimitError",
            "StepRejectedError",
            "StepStoppedError",
            "ToolBoundaryError",
            "ToolEvaluationError",
            "ToolRegistrationError",
            "ToolValidationError",
            "UnknownModelError",
            "UnsupportedContentError",
            "VerificationError",
        ),
        "executors.agent": ("AgentStepExecutor",),
        "executors.agent_protocol": (
            "AgentTask",
            "StepExecutionAgent",
        ),
        "functions": ("natural_function",),
        "hooks": ("Hooks",),
        "human": (
            "ask_user",
            "request_approval",
        ),
        "parallel": (
            "AlreadyResumedError",
            "CurrentTask",
            "DeadlineExceededError",
            "NotSuspendedError",
            "TaskCancelledError",
            "TaskEndedError",
            "TaskError",
            "TaskHandle",
            "cancel_requested",
            "current_task",
            "deadline",
            "open_tasks",
            "task_values",
        ),
        "pickling": ("UnpicklableError",),
        "policies.budgets.budget": (
            "Budget",
            "budget",
        ),
        "policies.budgets.terms": (
            "BudgetAmounts",
            "BudgetLimits",
        ),
        "policies.oversight.inspection": (
            "Accept",
            "Continue",
            "Oversight",
            "Proposal",
            "Reject",
            "Rewrite",
            "ToolCallInspection",
            "Verification",
            "verification",
        ),
        "policies.oversight.policy": ("get_oversight",),
        "policies.permissions.call": ("PermissionCall",),
        "policies.permissions.permissions": (
            "Permissions",
            "permissions",
        ),
        "policies.permissions.rules": (
            "PermissionRule",
            "rule",
        ),
        "policies.shared_objects.report": (
            "ConcurrentMutationWarning",
            "MutationReport",
        ),
        "ports": ("Model",),
        "runs": ("run",),
        "runtime.blocking": ("blocking",),
        "runtime.environment": (
            "get_current_step_actor",
            "get_current_step_context",
            "get_execution_ref",
            "get_implicit_references",
            "get_step_executor",
            "get_system_prompt_suffix_fragments",
            "get_usage_meter",
            "get_user_prompt_suffix_fragments",
        ),
        "runtime.partial_delivery": ("partial_values",),
        "runtime.policy": (
            "ModelCall",
            "Policy",
            "StepCommit",
        ),
        "runtime.snapshot": ("shared",),
        "runtime.steering": ("UndeliveredSteeringWarning",),
        "runtime.step_actor": (
            "StepActor",
            "StepSnapshot",
        ),
        "runtime.step_context": ("StepContext",),
        "runtime.step_executor": (
            "AsyncStepExecutor",
            "BreakStepOutcome",
            "ContinueStepOutcome",
            "PassStepOutcome",
            "RaiseStepOutcome",
            "ReturnStepOutcome",
            "StepExecutor",
            "StepOutcome",
            "SyncStepExecutor",
        ),
        "runtime.telemetry_settings": (
            "ContentCapture",
            "SemanticConventions",
            "configure_telemetry",
        ),
        "runtime.tool_decorator": ("tool",),
        "runtime.tool_function": ("RunContext",),
        "runtime.usage_meter": ("UsageMeter",),
        "scopes": ("scope",),
        "steps": (
            "step",
            "step_sync",
        ),
        "types.execution": (
            "ExecutionRef",
            "PartialValues",
        ),
        "types.json": ("JsonableValue",),
        "types.messages": (
            "AssistantMessage",
            "AudioUrl",
            "BinaryContent",
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
        "types.model": (
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
            "OutcomeTransport",
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
        "types.outcomes": (
            "Abort",
            "OutcomeKind",
        ),
        "types.unset": ("unset",),
        "types.usage": ("Usage",),
    },
)

offer_tracing(LazyModule(f"{__name__}.telemetry.tracing"))  # loaded if the program has loaded OpenTelemetry


def __getattr__(name: str) -> object:
    """Load an export on first use; the version comes from the installed distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nighthawk-async")
    if name == "open_tasks":  # in a package that knows nothing of the mailboxes of tasks
        from importlib import import_module

        import_module(f"{__name__}.runtime.run_tasks")
    return _load(name)
