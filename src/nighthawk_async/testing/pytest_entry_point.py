"""The entry point through which pytest loads the plugin, and names of options. Imported only by pytest.

PYTEST_DONT_REWRITE: it has no assertions, and may be imported before pytest registers it.
"""

from typing import Any

import pytest

_PLUGIN = "nighthawk_async.testing.pytest_plugin"


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Leave the modules of this library as they are.

    pytest rewrites the assertions of every module of a distribution with a plugin, which takes as long as
    their import. There is no public way to say that those of a library are none of a test.
    """
    hook: Any = pluginmanager.rewrite_hook
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard(__name__.partition(".")[0])


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the plugin after the project's own, whose options and fixtures take precedence.

    A `conftest.py` that names the plugin in `pytest_plugins` has loaded it before.
    """
    early_config.pluginmanager.import_plugin(_PLUGIN)


def free_names(pluginmanager: pytest.PytestPluginManager, short: str, long: str) -> tuple[str, ...]:
    """Return the names of an option, without the short one if another plugin has an option of that name."""
    config: pytest.Config | None = pluginmanager.get_plugin("pytestconfig")
    is_free = config is None or config.getoption(short, pytest) is pytest
    return (short, long) if is_free else (long,)
