"""The benchmarks of endless code carry out every step."""

from benchmarks.cases.endless_code import BENCHMARKS


def test_every_step_is_carried_out() -> None:
    for each in BENCHMARKS:
        if each.name.endswith(("loop-trio", "key-asyncio", "code-call", "code-for")):
            each.run(1)
