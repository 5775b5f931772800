"""Oversight: inspecting tool calls, commits and outcomes before they count."""
