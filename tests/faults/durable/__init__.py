"""A program whose runs are killed and continued, and what its lives are checked by."""
