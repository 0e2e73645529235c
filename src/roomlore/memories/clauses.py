"""Takes sentences apart into clauses that may state something, each with what leads to it and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.domain.patterns import lazy_pattern, sentence_pattern
from roomlore.memories.patterns import is_hypothetical_after, is_hypothetical_before, phrase_pattern
from roomlore.memories.sentences import Sentence

#: Names in small letters.
AddressNames = frozenset[str]
NO_NAMES: AddressNames = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """Words of a sentence that have a subject of their own, or whose subject is that of the clause before."""

    #: As in the sentence, from its subject on.
    text: str
    #: Its place in the body.
    start: int
    #: Where it begins with whoever else is its subject, as in "my wife and I"; its start where nobody is.
    coordinated_from: int
    #: Words before the subject that say nothing of their own, as "well" or "actually".
    prefix: str
    #: How much of its sentence addresses somebody or says nothing.
    lead_length: int
    sentence: Sentence
    #: Whether its sentence begins with it, but for its opening.
    is_first: bool

    @property
    def rest(self) -> str:
        """Return the sentence from here on."""
        return self.sentence.text[self.start - self.sentence.start :]

    @property
    def end(self) -> int:
        """Return where it ends in the body."""
        return self.start + len(self.text)

    @property
    def is_plain(self) -> bool:
        """Return whether what is around it lets it stand as it is."""
        start = self.start - self.sentence.start
        before = self.sentence.text[:start]
        if _BY_NOW.search(self.prefix):
            before = _FORMERLY.sub("", before)
        return not (
            _LABEL.search(self.sentence.text, self.lead_length, start)
            or is_hypothetical_before(before)
            or is_hypothetical_after(self.rest)
        )


#: A subject, or a verb of habit whose subject was just said.
_SUBJECT = r"(?:i|i'm|im|i've|ive|i'll|my|we|we're|we've|we'll|let's|lets|our|please|never|always|don't)\b"
_BORDER = phrase_pattern(
    rf"(?:[,;]|:(?= )| -| \u2013| \u2014){{1,9}} (?:(?:and|but|so|because|since|as|plus|though|yet|cause|also) )?"
    rf"| (?:and|but|so|because|since|'cause|cuz|though|plus|as) (?={_SUBJECT})"
    r"| (?:and|but) (?=(?:(?:also|now|currently) )?(?:work|live|play|speak|prefer|love|hate|study|teach|own|drive|volunteer) )"
    r"| (?:(?:because|'cause|cuz) |since (?=(?:it|they|he|she|the|there|that|you)\b)|but (?!(?:also|not)\b)|so (?=(?:it|they|everything|the|there|that|you)\b))"
    r"| [:;]-?[)D(]+ | [\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+ | (?=@\w)"
)
#: A comma between the members of a list, or between a place and its country, ends nothing.
_LISTED = sentence_pattern(
    r",? (?:and|or) (?!(?i:i|im|we|my|he|she|it|they|you)\b)[\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$|(?:, [\w'&/+-]+(?: [\w'&/+-]+)?){1,6},? (?:and|or) [\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$"
    r"|, [A-Z][\w'-]+(?: [A-Z][\w'-]+)?(?=[,.!]|\W*$)",
)
#: Between two adjectives of one noun: "a small, cheap van", "I prefer long, slow walks".
_ADJECTIVE = phrase_pattern(
    r"\b(?:(?:an?|such|very|really) [\w-]+|(?P<bare>(?:prefer|love|hate|like|enjoy|dislike)s? [a-z]+(?<!s)(?<!ing)))$"
)
_NOUN = sentence_pattern(
    r", (?P<noun>[a-z][\w-]*(?: [\w-]+){0,2}?)(?=\W*$|[,;.!(]| (?:for|with|in|on|at|of|and|from|to|by|near|that|which)\b)"
)
_NO_NOUN = frozenset(
    [
        "i",
        "you",
        "he",
        "she",
        "it",
        "we",
        "they",
        "my",
        "your",
        "this",
        "that",
        "there",
        "here",
        "no",
        "not",
        "yes",
        "ok",
        "okay",
        "thanks",
        "thank",
        "thx",
        "please",
        "too",
        "though",
        "really",
        "right",
        "man",
        "mate",
        "which",
        "who",
        "where",
        "when",
        "what",
        "how",
        "especially",
        "mostly",
        "so",
        "best",
        "nice",
        "good",
        "great",
        "come",
        "work",
        "see",
        "just",
        "btw",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "has",
        "have",
        "had",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "must",
        "may",
        "lol",
        "sorry",
        "even",
        "always",
        "never",
    ]
)
#: Stand in front of a statement and say nothing of their own; longer ones first, so that none hides in another.
_OPENING = phrase_pattern(
    r"(?:after (?:some|much|long|a lot of|a long|a short) (?:\w+ )?(?:discussion|thought|debate|talk)|in the end|as a team"
    r"|as for me|for me|as you know|as always|of course|by the way|for the record|just so you know|to be honest|in fact"
    r"|in general|after all|at least|keep in mind(?: that)?|don't forget(?: that)?|remind you that"
    r"|(?:please )?(?:note|remember)(?: that)?|heads up|thank you|thanks|these days|nowadays|this (?:morning|week)|last (?:night|week)"
    r"|scratch that|never ?mind|nvm|all right|alright|right|well|so|ok(?:ay)?|o\.k\.|fine|yes|yep|yeah|yup|ya|nope|no|nah|oh"
    r"|ah|aw|um+|uh+|hm+|hey|hi|hello|fyi|btw|honestly|personally|frankly|tbh|imo|imho|actually|sorry|oops|anyway|though"
    r"|still|now|currently|basically|sure|great|cool|nice|wow|see|look|listen|guys|folks|everyone|everybody|all|yesterday"
    r"|today|generally|unfortunately|luckily|sadly|finally|same|just|also|plus|and|but|since|because|cause|as)"
    r"\b[\s,.!;*-]+"
    # These may be put in front of one with a colon.
    r"|(?:correction|note|fyi|btw|heads up|update|reminder|tip|psa|edit|big news|good news|fun fact)\b[\s,.!:;*-]+"
)
_ADDRESS = sentence_pattern(
    r"(?:@[\w.|\[\]-]{1,40}|<@!?\w{1,30}>)[\s,:]*|[\w|\[\]`^{}.-]{2,30},\s+(?=\S)|\s{0,9}[\W_]{1,6}\s{0,9}(?=\w)"
)
_CALLED = sentence_pattern(r"(?P<name>[\w|\[\]`^{}.-]{2,40}):\s+(?=\S)")
#: Says what follows to be something else than said by whoever wrote it.
_LABEL = sentence_pattern(r":\s")
#: Somebody who does it together with whoever speaks.
_SHARED = phrase_pattern(
    r"(?:^|[,;:] )(?P<who>(?!(?:i|we|you|they|he|she|it)\b)(?:(?:my|our|the|his|her) )?[\w'-]+(?: [\w'-]+)?) and $"
)
#: What used to be so says nothing against what is so by now.
_BY_NOW, _FORMERLY = (
    sentence_pattern(r"(?i)\b(?:now|nowadays|these days)\b"),
    lazy_pattern(r"(?i)\bused to\b"),
)
_LONGEST_HEAD = 60
#: Fewer messages that begin with a name may have been pasted.
_MIN_ADDRESSES = 2
_MOST_OPENINGS = 5


def address_names(bodies: Sequence[str], names: frozenset[str]) -> AddressNames:
    """Return which of the names stand in front of messages for those who are addressed.

    "Ana: I live in Lisbon" is Ana's own where it was pasted, and said to her where that is how people talk: where
    several do so, or write names in small letters as they would not be displayed.
    """
    heads = [match["name"] for body in bodies if (match := _CALLED.match(body.lstrip()[:_LONGEST_HEAD]))]
    addressed = [name for name in heads if name.casefold() in names]
    is_custom = len(addressed) >= _MIN_ADDRESSES
    return frozenset(name.casefold() for name in addressed if is_custom or name.islower())


def clauses_of(sentence: Sentence, called: AddressNames = NO_NAMES) -> list[Clause]:
    """Return the clauses of a sentence in order.

    Args:
        sentence: What is said.
        called: Who may be addressed in front of it, as "Ana: …", which otherwise says who speaks.
    """
    text = sentence.text
    found = [match for match in _BORDER.finditer(text) if not _divides_adjectives(text, match.start())]
    borders = [0, *(match.end() for match in found)]
    ends = [*(match.start() for match in found), len(text)]
    lead = _skip_prefixes(text, 0, called=called)
    return [
        _clause(sentence, begin, _listed(text, end), lead=lead)
        for begin, end in zip(borders, ends, strict=True)
        if end > lead or end == len(text)
    ]


def _divides_adjectives(text: str, comma: int) -> bool:
    """Return whether what is ahead of a comma lacks the noun that follows it."""
    noun = _NOUN.match(text, comma)
    if not noun or not _NO_NOUN.isdisjoint(noun["noun"].lower().split()):
        return False
    adjective = _ADJECTIVE.search(text, 0, comma)
    # What stands alone may be the whole of what is liked, but for "long, slow walks".
    return bool(adjective and (not adjective["bare"] or noun["noun"].endswith("s")))


def _listed(text: str, end: int) -> int:
    match = _LISTED.match(text, end)
    return match.end() if match else end


def _clause(sentence: Sentence, begin: int, end: int, *, lead: int) -> Clause:
    text = sentence.text
    is_first = begin <= lead
    start = lead if is_first else min(_skip_prefixes(text, begin), end)
    shared = _SHARED.search(text, 0, start)
    return Clause(
        text=text[start:end].rstrip(),
        start=sentence.start + start,
        coordinated_from=sentence.start + (shared.start("who") if shared else start),
        prefix=text[0 if is_first else begin : start],
        lead_length=lead,
        is_first=is_first,
        sentence=sentence,
    )


def _skip_prefixes(text: str, start: int, *, called: AddressNames = NO_NAMES) -> int:
    """Return where the words begin that say something, behind greetings, addresses and the like."""
    for _ in range(_MOST_OPENINGS):
        match = _OPENING.match(text, start) or _ADDRESS.match(text, start)
        if not match:
            match = _CALLED.match(text, start)
            if not match or match["name"].casefold() not in called:
                break
        start = match.end()
    return start
