"""One program for each thing that is compared; `harness` says how they are started and what they share."""
