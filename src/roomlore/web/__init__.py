"""Pages for people: server-rendered, read without scripts, each with a JSON twin under the same authorisation."""
