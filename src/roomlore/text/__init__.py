"""Recognises what a message contains: sentences, quotations, questions, requests for confidentiality, addressees.

The functions here depend only on the text and take time linear in its length. They have no data about rooms or people.
"""
