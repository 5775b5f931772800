"""Our requests and wire shapes against the types of the providers' own packages."""

import warnings

with warnings.catch_warnings():
    # What the packages warn of while they are imported is none of our business.
    warnings.simplefilter("ignore")
    import anthropic
    import google.genai
    import openai

__all__ = ["anthropic", "google", "openai"]
