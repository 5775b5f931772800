"""A bot that repairs a repository whose tests fail: a plan, workers in parallel, a review."""
