"""Natural blocks as text and as syntax. Pure.

From the text of one block to the code of one function:

    tokens        `<name>`, `<:name>` and their escapes in a text
    frontmatter   the optional deny-only YAML head of a program
    program       literal -> natural program
    literals      which statements of a syntax tree are natural blocks
    blocks        everything static about one block, made once, at decoration
    source        function -> its node in the syntax tree of its file
    scope         which names a function binds
    generated     the statements that run one block
    nested        functions inside a function that have blocks of their own
    rewrite       function body -> function body whose blocks run
    compilation   rewritten node -> code object with the closure of the original
    transform     function -> transformed function; the door of this room

No await and no I/O beyond `linecache`; nothing here knows how a step is run.
"""
