"""People in the loop: questions, approvals, and the handlers that reach people."""
