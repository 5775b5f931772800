"""A page on which people observe and control a running program: an ASGI application to mount."""
