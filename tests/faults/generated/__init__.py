"""Generated programs whose results depend on order and on look-alike arguments, and an oracle."""
