"""Pages for people: rendered on the server, readable without scripts.

Each page is also available as JSON to the same viewers.
"""
