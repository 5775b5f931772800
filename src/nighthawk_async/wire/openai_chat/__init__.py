"""OpenAI Chat Completions, which many servers support."""
