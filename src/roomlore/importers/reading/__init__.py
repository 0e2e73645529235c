"""Reads exports as files, lines, JSON and HTML. All importers share it."""
