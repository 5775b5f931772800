"""What code of a model may do in a step: `code=`."""
