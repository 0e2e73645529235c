"""What can be asked for over HTTP, by resource: each parses, calls the App, and returns."""
