"""Tests on the Python 3.14 of Pyodide, for machines that have no other; see the session `pyodide` of nox."""
