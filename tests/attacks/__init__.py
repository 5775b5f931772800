"""Attacks on the levels of code: a grammar of them, and a watcher over what they must not change."""
