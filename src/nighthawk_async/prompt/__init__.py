"""Python values as bounded prompt text. Pure.

Nothing here awaits, calls user code, or visits more of a value than its token budget can show.
"""
