"""An order that two people have to approve, and that waits for them for up to two days."""
