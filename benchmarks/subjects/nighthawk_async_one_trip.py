"""This project, when the model assigns and ends in one response: one round trip."""

from . import harness
from .natural_steps import open_natural_steps, scripts_of

if __name__ == "__main__":
    harness.main(open_natural_steps, scripts_of(in_one_trip=True))
