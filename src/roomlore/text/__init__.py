"""Recognises what the words of a message do: sentences, quotations, questions, requests for secrecy, whom they address.

Everything here reads text alone, in time linear in it, and knows neither rooms nor people.
"""
