"""What providers stream, made in memory: one module a protocol, each with the same three functions.

They say whole texts in small deltas, with all the fields that the providers really send, the unused ones too.
Facts were taken from the official SDKs' types; none of it was recorded from anybody's account.
"""
