"""Lets a coding agent repair a repository."""
