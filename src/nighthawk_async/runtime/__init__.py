"""One step and its surroundings.

The module paths `runtime.step_context` and `runtime.step_executor` are public (specification 14.3); all
others are private.
"""
