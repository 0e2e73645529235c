"""Foreign machinery behind the ports of the domain: models and services that may be swapped or missing."""
