"""OpenAI Chat Completions, which many servers speak."""
