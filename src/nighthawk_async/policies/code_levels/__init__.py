"""The levels of code of a model in a step: `code=`."""
