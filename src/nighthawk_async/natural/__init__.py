"""Natural blocks as text and as syntax. Pure.

From the text of one block to the code of one function:

    tokens      `<name>`, `<:name>` and their escapes in a text
    program     literal -> natural program, without its deny-only YAML frontmatter
    blocks      everything static about one block, made once, at decoration
    source      function -> its node in the syntax tree of its file; rewritten node -> code object
    scope       the names that a function binds; functions inside it that have blocks of their own
    tree        walking syntax trees; the statements that run one block
    rewrite     function body -> function body whose blocks run
    transform   function -> transformed function; the entry point of this package

No await and no I/O beyond `linecache`; nothing here knows how steps run.
"""
