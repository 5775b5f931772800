"""Facts about providers and models: data without behaviour. Floor 1."""
