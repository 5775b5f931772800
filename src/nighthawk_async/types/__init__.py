"""Frozen vocabulary without behaviour. Floor 0: no await, no I/O, imports nothing of the house."""
