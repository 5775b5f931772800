"""The kernel: runs, the way of a step, tools, and the protocol of policies."""
