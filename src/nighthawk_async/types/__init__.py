"""Frozen vocabulary without behaviour. No await, no I/O."""
