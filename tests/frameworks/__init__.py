"""Runs in the frameworks of others: services, workers, notebooks, test runners."""
