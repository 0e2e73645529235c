"""Short forms of English in full: "don't" and "do not" are the same words."""

_WHOLE_CONTRACTIONS = {
    "can't": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "cannot": "can not",
    "let's": "let us",
}
_CONTRACTED_ENDINGS = (("n't", " not"), ("'re", " are"), ("'ll", " will"), ("'ve", " have"), ("'m", " am"))


def expand_contraction(word: str) -> str:
    """Return a word in small letters as the words that it is short for; any other as it is.

    What is one of two, "'s" and "'d", stays: who needs it decides.
    """
    if word in _WHOLE_CONTRACTIONS:
        return _WHOLE_CONTRACTIONS[word]
    for ending, full in _CONTRACTED_ENDINGS:
        if word.endswith(ending):
            return word.removesuffix(ending) + full
    return word
