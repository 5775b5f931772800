"""The program of an embedded model server whose model can call tools: the real server, another chat template.

The template of so small a model knows no tools. This one writes calls as most models do that know them, so
the server parses them, and a model that sees a few earlier calls writes another one like them.
"""

from typing import Any

import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

from nighthawk_async.models import local_server

CHAT_TEMPLATE = """
{%- if tools %}{{- '<|im_start|>system\\nCall a tool.' }}
{%- for tool in tools %}{{- ' ' + tool.function.name + ': ' + tool.function.description }}{%- endfor %}
{{- '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{- '<|im_start|>assistant' }}
{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- else %}{{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

_start: Any = xllamacpp.Server


def start_with_template(parameters: Any) -> Any:
    """Start the server as it would be started, with the template."""
    parameters.chat_template = CHAT_TEMPLATE.strip()
    return _start(parameters)


if __name__ == "__main__":
    xllamacpp.Server = start_with_template  # type: ignore[misc]
    local_server.main()
