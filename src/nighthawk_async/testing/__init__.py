"""Testing of natural functions without a network, a key or a wait. The command line uses it, too."""

from typing import TYPE_CHECKING

from ..lazy_exports import attach_exports

if TYPE_CHECKING:
    from .answer_server import AnswerServer
    from .cassettes import (
        Cassette,
        CassetteError,
        CassetteMissError as CassetteMissError,
        CassetteMode as CassetteMode,
        RecordedExchange as RecordedExchange,
        cassette,
    )
    from .contracts import (
        Contract as Contract,
        JournalStoreContract,
        ModelContract,
        PlacementContract,
        PolicyContract,
        StepExecutorContract,
    )
    from .executors import (
        CallbackExecutor,
        ScriptedExecutor,
        StepCall,
        StepResponse,
        break_response,
        continue_response,
        pass_response,
        raise_response,
        return_response,
    )
    from .model_reply import (
        ModelReply,
        RecordedRequest as RecordedRequest,
        ReplyEnding as ReplyEnding,
        ReplyFault as ReplyFault,
        ReplyPacing as ReplyPacing,
    )
    from .model_server import (
        ModelServer,
        ModelServerConnections as ModelServerConnections,
        ReplyHandler as ReplyHandler,
    )
    from .model_server_batches import (
        BatchEnding as BatchEnding,
        ServedBatch as ServedBatch,
        ServedBatches as ServedBatches,
    )
    from .model_server_files import ServedFile as ServedFile, ServedFiles as ServedFiles
    from .replays import RunReplay as RunReplay, replay
    from .scripted_model import ModelResponse, ScriptedModel, model_response, tool_call
else:
    __getattr__, __dir__ = attach_exports(
        __name__,
        names={
            "answer_server": ("AnswerServer",),
            "cassettes": (
                "Cassette",
                "CassetteError",
                "CassetteMissError",
                "CassetteMode",
                "RecordedExchange",
                "cassette",
            ),
            "contracts": (
                "Contract",
                "JournalStoreContract",
                "ModelContract",
                "PlacementContract",
                "PolicyContract",
                "StepExecutorContract",
            ),
            "executors": (
                "CallbackExecutor",
                "ScriptedExecutor",
                "StepCall",
                "StepResponse",
                "break_response",
                "continue_response",
                "pass_response",
                "raise_response",
                "return_response",
            ),
            "model_reply": (
                "ModelReply",
                "RecordedRequest",
                "ReplyEnding",
                "ReplyFault",
                "ReplyPacing",
            ),
            "model_server": (
                "ModelServer",
                "ModelServerConnections",
                "ReplyHandler",
            ),
            "model_server_batches": (
                "BatchEnding",
                "ServedBatch",
                "ServedBatches",
            ),
            "model_server_files": (
                "ServedFile",
                "ServedFiles",
            ),
            "replays": (
                "RunReplay",
                "replay",
            ),
            "scripted_model": (
                "ModelResponse",
                "ScriptedModel",
                "model_response",
                "tool_call",
            ),
        },
    )

__all__ = [
    "AnswerServer",
    "CallbackExecutor",
    "Cassette",
    "CassetteError",
    "JournalStoreContract",
    "ModelContract",
    "ModelReply",
    "ModelResponse",
    "ModelServer",
    "PlacementContract",
    "PolicyContract",
    "ScriptedExecutor",
    "ScriptedModel",
    "StepCall",
    "StepExecutorContract",
    "StepResponse",
    "break_response",
    "cassette",
    "continue_response",
    "model_response",
    "pass_response",
    "raise_response",
    "replay",
    "return_response",
    "tool_call",
]
