"""Testing of natural functions without a network, a key or a wait. Floor 6; the command line uses it."""

from ..lazy_exports import attach_exports

__getattr__, __dir__, __all__ = attach_exports(
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
        "model_server_batches": ("BatchEnding", "ServedBatch", "ServedBatches"),
        "model_server_files": ("ServedFile", "ServedFiles"),
        "replays": ("RunReplay", "replay"),
        "scripted_model": (
            "ModelResponse",
            "ScriptedModel",
            "model_response",
            "tool_call",
        ),
    },
)
