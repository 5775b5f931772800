"""The reviews of the demonstration as an evaluation, `nighthawk_async.cli.demo_evaluation` for `eval`."""

from ..evals.cases import Case
from ..evals.declarations import Evaluation
from .demo_functions import classify, load_reviews

cases = [
    Case(f"review {number:02}", inputs={"review": review.review}, expected=review.label, tags=(review.label,))
    for number, review in enumerate(load_reviews(), start=1)
]

# The embedded model labels 31 of 32 right; the processor may change a few. Guarded by
# `test_the_gate_of_the_demonstration_holds_and_catches_a_worse_prompt`.
evaluation = Evaluation(classify, cases, at_least=0.85)
