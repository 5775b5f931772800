"""Python values as bounded prompt text. Pure.

Nothing here awaits, calls user code, or walks more of a value than its token budget can show.
"""
