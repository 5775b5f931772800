"""Step contexts for tests of what works on them."""

import nighthawk_async as nh


def make_context(**step_locals: object) -> nh.StepContext:
    return nh.StepContext(
        step_id="module:1",
        execution_ref=nh.ExecutionRef(run_id="r", scope_id="s"),
        step_globals={"__name__": "module", "rate": 2},
        step_locals=step_locals,
    )
