"""Wishes that are spoken in a room: what is to be forgotten, kept between some, or kept from some."""
