"""The real code of the program, on a virtual clock, for many workers: network and failures are a model."""
