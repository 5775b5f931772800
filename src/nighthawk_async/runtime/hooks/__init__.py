"""Hooks: functions that are called for events, and what their answers change. Floor 3."""
