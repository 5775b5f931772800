"""Facts about providers and models: data without behaviour."""
