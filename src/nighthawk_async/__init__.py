"""Natural-language blocks in Python as structured-concurrency actors, on Trio or asyncio.

The house, ground floor first; a room imports only from lower floors (`tests/architecture/test_floors.py`):

    0  errors, types, configuration      1  natural, prompt, wire, catalog, actors, parallel
    2  ports                             3  runtime
    4  models, executors
    5  functions, hooks, human, oversight, resilience, testing, cli, and this module, which joins them
"""

from . import actors, hooks, human, oversight, parallel, resilience
from .configuration import LoopGuard, StepContextLimits, StepExecutorConfiguration, StepPromptTemplates
from .errors import (
    AnswerTimeoutError,
    ApprovalDeniedError,
    ApprovalExpiredError,
    BudgetExceededError,
    ConfigurationError,
    ConnectTimeoutError,
    ErrorKind,
    ExecutionError,
    FirstEventTimeoutError,
    HookError,
    HumanError,
    IdleTimeoutError,
    MissingCredentialError,
    ModelConnectionError,
    ModelError,
    ModelProtocolError,
    ModelProviderError,
    ModelStatusError,
    ModelTimeoutError,
    NaturalParseError,
    NighthawkError,
    NoHumanError,
    RepeatedToolCallError,
    RequestTimeoutError,
    StepAbortedError,
    StepEndedError,
    StepLimitError,
    StepRejectedError,
    StepStoppedError,
    ToolBoundaryError,
    ToolEvaluationError,
    ToolRegistrationError,
    ToolValidationError,
    UnknownModelError,
    UnsupportedContentError,
    VerificationError,
)
from .executors.agent import AgentStepExecutor
from .executors.agent_protocol import AgentTask, StepExecutionAgent
from .functions import natural_function
from .hooks import Hooks
from .human import ask_user, request_approval
from .parallel import (
    AlreadyResumedError,
    CurrentTask,
    DeadlineExceededError,
    NotSuspendedError,
    TaskCancelledError,
    TaskEndedError,
    TaskError,
    TaskHandle,
    cancel_requested,
    current_task,
    deadline,
    open_tasks,
    task_values,
)
from .ports import Model
from .runtime.blocking import blocking
from .runtime.budgets.budget import Budget, budget
from .runtime.budgets.terms import BudgetAmounts, BudgetLimits
from .runtime.environment import (
    get_current_step_actor,
    get_current_step_context,
    get_execution_ref,
    get_implicit_references,
    get_oversight,
    get_step_executor,
    get_system_prompt_suffix_fragments,
    get_usage_meter,
    get_user_prompt_suffix_fragments,
)
from .runtime.mutation.report import ConcurrentMutationWarning, MutationReport
from .runtime.mutation.shared_objects import shared
from .runtime.oversight.abort import Abort
from .runtime.oversight.inspection import Accept, Oversight, Reject, Rewrite, StepCommit, ToolCallInspection
from .runtime.oversight.verification import Continue, Proposal, Verification, verification
from .runtime.permissions.call import PermissionCall
from .runtime.permissions.permissions import Permissions, permissions
from .runtime.permissions.rules import PermissionRule, rule
from .runtime.run import run
from .runtime.scope import scope
from .runtime.steering import UndeliveredSteeringWarning
from .runtime.step_actor import StepActor, StepSnapshot
from .runtime.step_context import StepContext
from .runtime.step_executor import (
    AsyncStepExecutor,
    BreakStepOutcome,
    ContinueStepOutcome,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepExecutor,
    StepOutcome,
    SyncStepExecutor,
)
from .runtime.tools.decorator import tool
from .runtime.tools.function import RunContext
from .runtime.usage_meter import UsageMeter
from .types.content import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FileUrl,
    ImageUrl,
    UploadedFile,
    UserContent,
    VideoUrl,
)
from .types.execution import ExecutionRef
from .types.json import JsonableValue
from .types.messages import (
    AssistantMessage,
    Message,
    ProviderContent,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserMessage,
)
from .types.model import (
    FinishReason,
    ModelCapabilities,
    ModelEvent,
    ModelPrice,
    ModelRequest,
    NamedToolChoice,
    OutcomeTransport,
    ReasoningControl,
    ReasoningDelta,
    ResponseFailed,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    ToolChoice,
    UsageReported,
)
from .types.outcomes import OutcomeKind
from .types.settings import (
    AnthropicSettings,
    CacheLifetime,
    GoogleSettings,
    ModelSettings,
    OpenAIChatSettings,
    OpenAIResponsesSettings,
    ReasoningEffort,
)
from .types.tools import ToolDefinition
from .types.usage import Usage

__all__ = [
    "Abort",
    "Accept",
    "AgentStepExecutor",
    "AgentTask",
    "AlreadyResumedError",
    "AnswerTimeoutError",
    "AnthropicSettings",
    "ApprovalDeniedError",
    "ApprovalExpiredError",
    "AssistantMessage",
    "AsyncStepExecutor",
    "AudioUrl",
    "BinaryContent",
    "BreakStepOutcome",
    "Budget",
    "BudgetAmounts",
    "BudgetExceededError",
    "BudgetLimits",
    "CacheLifetime",
    "ConcurrentMutationWarning",
    "ConfigurationError",
    "ConnectTimeoutError",
    "Continue",
    "ContinueStepOutcome",
    "CurrentTask",
    "DeadlineExceededError",
    "DocumentUrl",
    "ErrorKind",
    "ExecutionError",
    "ExecutionRef",
    "FileUrl",
    "FinishReason",
    "FirstEventTimeoutError",
    "GoogleSettings",
    "HookError",
    "Hooks",
    "HumanError",
    "IdleTimeoutError",
    "ImageUrl",
    "JsonableValue",
    "LoopGuard",
    "Message",
    "MissingCredentialError",
    "Model",
    "ModelCapabilities",
    "ModelConnectionError",
    "ModelError",
    "ModelEvent",
    "ModelPrice",
    "ModelProtocolError",
    "ModelProviderError",
    "ModelRequest",
    "ModelSettings",
    "ModelStatusError",
    "ModelTimeoutError",
    "MutationReport",
    "NamedToolChoice",
    "NaturalParseError",
    "NighthawkError",
    "NoHumanError",
    "NotSuspendedError",
    "OpenAIChatSettings",
    "OpenAIResponsesSettings",
    "OutcomeKind",
    "OutcomeTransport",
    "Oversight",
    "PassStepOutcome",
    "PermissionCall",
    "PermissionRule",
    "Permissions",
    "Proposal",
    "ProviderContent",
    "RaiseStepOutcome",
    "ReasoningControl",
    "ReasoningDelta",
    "ReasoningEffort",
    "Reject",
    "RepeatedToolCallError",
    "RequestTimeoutError",
    "ResponseFailed",
    "ResponseFinished",
    "ResponseFormat",
    "ReturnStepOutcome",
    "Rewrite",
    "RunContext",
    "StepAbortedError",
    "StepActor",
    "StepCommit",
    "StepContext",
    "StepContextLimits",
    "StepEndedError",
    "StepExecutionAgent",
    "StepExecutor",
    "StepExecutorConfiguration",
    "StepLimitError",
    "StepOutcome",
    "StepPromptTemplates",
    "StepRejectedError",
    "StepSnapshot",
    "StepStoppedError",
    "SyncStepExecutor",
    "TaskCancelledError",
    "TaskEndedError",
    "TaskError",
    "TaskHandle",
    "TextDelta",
    "ToolBoundaryError",
    "ToolCall",
    "ToolCallArgumentsDelta",
    "ToolCallCompleted",
    "ToolCallInspection",
    "ToolCallStarted",
    "ToolChoice",
    "ToolDefinition",
    "ToolEvaluationError",
    "ToolRegistrationError",
    "ToolResult",
    "ToolResultsMessage",
    "ToolValidationError",
    "UndeliveredSteeringWarning",
    "UnknownModelError",
    "UnsupportedContentError",
    "UploadedFile",
    "Usage",
    "UsageMeter",
    "UsageReported",
    "UserContent",
    "UserMessage",
    "Verification",
    "VerificationError",
    "VideoUrl",
    "actors",
    "ask_user",
    "blocking",
    "budget",
    "cancel_requested",
    "current_task",
    "deadline",
    "get_current_step_actor",
    "get_current_step_context",
    "get_execution_ref",
    "get_implicit_references",
    "get_oversight",
    "get_step_executor",
    "get_system_prompt_suffix_fragments",
    "get_usage_meter",
    "get_user_prompt_suffix_fragments",
    "hooks",
    "human",
    "natural_function",
    "open_tasks",
    "oversight",
    "parallel",
    "permissions",
    "request_approval",
    "resilience",
    "rule",
    "run",
    "scope",
    "shared",
    "task_values",
    "tool",
    "verification",
]

__version__: str


def __getattr__(name: str) -> str:
    """The version, read from the installed distribution when somebody asks."""
    if name == "__version__":
        from importlib.metadata import version

        return version("nighthawk-async")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
