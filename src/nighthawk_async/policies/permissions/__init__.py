"""Permissions: which calls are allowed, asked about or denied, and the guard that asks."""
