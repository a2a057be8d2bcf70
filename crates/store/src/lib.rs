//! Facts in SQLite: the Writer with its commit pipeline, the Reader, migrations.
