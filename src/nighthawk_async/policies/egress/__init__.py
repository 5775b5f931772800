"""The hosts that a run may reach: for servers, for pages, and for media by address."""
