"""Implementations of the `Model` protocol: providers over HTTP, and models on this machine."""
