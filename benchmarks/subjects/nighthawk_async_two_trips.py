"""This project, when the model assigns in one response and ends in the next: two round trips."""

from . import harness
from .natural_steps import open_natural_steps, scripts_of

if __name__ == "__main__":
    harness.main(open_natural_steps, scripts_of(in_one_trip=False))
