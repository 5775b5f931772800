"""Seeds of tests that choose at random: of the test's name, so that every run chooses the same.

With `--all-cases` each run chooses anew. A seed is printed, which pytest shows when the test fails, and an
environment variable repeats it.
"""

import os
import random
from zlib import crc32

import pytest

__all__ = ["seed_of"]


def seed_of(request: pytest.FixtureRequest, variable: str) -> int:
    """The seed of a test.

    Args:
        request: The request of the test, or of its fixture.
        variable: The environment variable that sets another seed.
    """
    given = os.environ.get(variable)
    if given:
        seed = int(given)
    elif request.config.getoption("--all-cases"):
        seed = random.SystemRandom().randrange(2**32)
    else:
        seed = crc32(request.node.nodeid.encode())
    print(f"{variable}={seed}")
    return seed
