"""Privacy requests that are stated in a room: what is to be forgotten, confidential, or hidden from some people."""
