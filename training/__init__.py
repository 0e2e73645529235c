"""Makes the weights of the reply model; see README.md."""
