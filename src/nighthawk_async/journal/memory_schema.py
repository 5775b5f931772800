"""The tables of memories, which stand beside those of runs; `memory` reads and writes them.

Their rows are small: no body is a blob.
"""

MIGRATION = (
    "CREATE TABLE memory_secrets (name TEXT PRIMARY KEY, body {bytes} NOT NULL){table_options}",
    """
CREATE TABLE memory_spaces (
    space BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    last_seq BIGINT NOT NULL,
    records BIGINT NOT NULL,
    words BIGINT NOT NULL
){table_options}
""",
    """
CREATE TABLE memory_log (
    space BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    operation TEXT NOT NULL,
    record_id TEXT NOT NULL,
    event TEXT NOT NULL,
    at {real} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (space, seq)
){table_options}
""",
    "CREATE UNIQUE INDEX memory_log_by_event ON memory_log (space, event)",
    "CREATE INDEX memory_log_by_record ON memory_log (space, record_id)",
    """
CREATE TABLE memory_entries (
    space BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    is_current INTEGER NOT NULL,
    words BIGINT NOT NULL,
    content {bytes} NOT NULL,
    terms {bytes} NOT NULL,
    PRIMARY KEY (space, seq)
){table_options}
""",
    """
CREATE TABLE memory_terms (
    space BIGINT NOT NULL,
    term BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    count BIGINT NOT NULL,
    words BIGINT NOT NULL,
    PRIMARY KEY (space, term, seq)
){table_options}
""",
    """
CREATE TABLE memory_vectors (
    space BIGINT NOT NULL,
    hint TEXT NOT NULL,
    content {bytes} NOT NULL,
    is_query INTEGER NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (space, hint, content)
){table_options}
""",
)
"""The statements that make the tables; see `tables.migrate`."""
