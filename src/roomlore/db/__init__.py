"""The only package with SQL: functions take a connection, return frozen records and never commit."""
