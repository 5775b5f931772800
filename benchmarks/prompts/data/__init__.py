"""Types, inputs and functions of the blocks. Nothing here imports this project: the peers share it."""
