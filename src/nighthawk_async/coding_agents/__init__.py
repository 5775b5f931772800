"""Coding agents as executors of steps: Claude Code and Codex."""
