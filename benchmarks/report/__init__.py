"""What is told of a run: as data, as a page, as plots, and against an earlier run."""
