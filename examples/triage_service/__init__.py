"""A service that sorts support tickets with natural functions: a start for one of your own."""
