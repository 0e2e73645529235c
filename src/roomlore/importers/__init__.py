"""Convert foreign exports to neutral records: one importer for each format, independent of the others."""
