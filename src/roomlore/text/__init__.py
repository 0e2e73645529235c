"""Recognises what a message contains: sentences, quotations, questions, requests for confidentiality, addressees.

The functions here depend only on the text, take time linear in its length, and have no data about rooms or people.
"""
