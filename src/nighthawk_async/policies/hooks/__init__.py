"""Hooks: functions that are called for events, and the effects of their answers."""
