"""The only place that speaks SQL: functions take a connection, return frozen records and never commit."""
