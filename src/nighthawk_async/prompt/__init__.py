"""Python values as bounded prompt text. Floor 1: pure; imports only `errors`, `types` and `configuration`.

Nothing here awaits, calls user code, or walks more of a value than its token budget can show.
"""
