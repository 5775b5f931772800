"""Sandboxes for the code that a model writes: a level of `code=`.

Code of a step runs in a worker process that has none of the program's memory. Values go in and out
by copy; functions and objects of the program stay in it, and are called there, through the actor of the step.
It knows nothing of models and prompts.

    code_runner     one step: names that go in and out, errors, what the model is told
        ├── crossing        values of the program as copies and references, and back
        ├── host_calls      calls that the code makes of the program, through the actor
        └── a session       `monty_session` or `process_session`: the worker of one step
"""
