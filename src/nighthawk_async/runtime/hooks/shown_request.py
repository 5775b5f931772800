"""A model request as hooks are shown it: nothing in it can be changed in place. Floor 3. Pure.

Its settings and schemas are shared with other requests, of other runs too.
"""

from dataclasses import replace

from ...types.model import ModelRequest
from .read_only import deeply_read_only

__all__ = ["as_answered", "as_shown"]


def as_shown(request: ModelRequest) -> ModelRequest:
    """The request with read-only settings and schemas.

    Args:
        request: The request.
    """
    form = request.response_format
    return replace(
        request,
        settings=deeply_read_only(request.settings),
        tools=tuple(replace(tool, parameters=deeply_read_only(tool.parameters)) for tool in request.tools),
        response_format=None if form is None else replace(form, schema=deeply_read_only(form.schema)),
    )


def as_answered(answer: ModelRequest, *, shown: ModelRequest, request: ModelRequest) -> ModelRequest:
    """What the hooks' answer means for the request: what they left alone is as it was.

    Args:
        answer: The request that the hooks gave back.
        shown: The request that they were shown.
        request: The request itself.
    """
    if answer is shown:
        return request
    form = answer.response_format
    return replace(
        answer,
        settings=request.settings if answer.settings is shown.settings else answer.settings,
        tools=request.tools if answer.tools is shown.tools else answer.tools,
        response_format=request.response_format if form is shown.response_format else form,
    )
