"""The tables of topics; `topic_table` and `topic_starts` read and write them.

A message has one row, and one delivery for each subscription of its topic. Deliveries that wait have no run.
"""

from .blob_table import index_of

MIGRATION = (
    """
CREATE TABLE topics (
    name TEXT PRIMARY KEY,
    last_number BIGINT NOT NULL,
    secret {bytes} NOT NULL
){table_options}
""",
    """
CREATE TABLE topic_messages (
    topic TEXT NOT NULL,
    number BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    publisher TEXT NOT NULL,
    at {real} NOT NULL,
    body {bytes},
    PRIMARY KEY (topic, number)
){table_options}
""",
    "CREATE UNIQUE INDEX topic_messages_by_id ON topic_messages (topic, message_id)",
    index_of("topic_messages_by_blob", "topic_messages", "body"),
    """
CREATE TABLE subscriptions (
    topic TEXT NOT NULL,
    function TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    max_lives INTEGER NOT NULL,
    options {bytes} NOT NULL,
    PRIMARY KEY (topic, function)
){table_options}
""",
    "CREATE INDEX subscriptions_by_queue ON subscriptions (queue)",
    """
CREATE TABLE topic_deliveries (
    topic TEXT NOT NULL,
    function TEXT NOT NULL,
    number BIGINT NOT NULL,
    at {real} NOT NULL,
    size BIGINT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    begun_at {real} NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, function, number)
){table_options}
""",
    "CREATE INDEX topic_deliveries_waiting ON topic_deliveries (topic, function, key, number) "
    "WHERE state = 'waiting'",
    "CREATE INDEX topic_deliveries_begun ON topic_deliveries (topic, function, key) "
    "WHERE state IN ('begun', 'stuck') AND key <> ''",
    "CREATE INDEX topic_deliveries_by_message ON topic_deliveries (topic, number)",
    "CREATE INDEX topic_deliveries_by_run ON topic_deliveries (run_id)",
    """
CREATE TABLE topic_handlers (
    queue TEXT NOT NULL,
    function TEXT NOT NULL,
    seen_at {real} NOT NULL,
    PRIMARY KEY (queue, function)
){table_options}
""",
)
"""The statements that make the tables; see `tables.migrate`."""
