"""The user's tools: registering, calling, and what the model sees of their results. Floor 3."""
