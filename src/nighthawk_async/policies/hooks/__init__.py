"""Hooks: functions that are called for events, and what their answers change."""
