"""Values: schemas, validation, snapshots, canonical forms, plain data. Pure."""
