"""Generated programs whose results depend on order and on look-alike arguments, and the oracle of their lives."""
