"""Durable runs whose calls are on workers, which are killed at random; and so is their program."""
