"""A page on which people see what goes on, and influence it: an ASGI application to mount."""
