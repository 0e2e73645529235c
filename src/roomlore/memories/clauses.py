"""Splits sentences into clauses that may state something, each with the words before and after it."""

from collections.abc import Collection
from dataclasses import dataclass

from roomlore.domain.patterns import lazy_pattern, sentence_pattern
from roomlore.memories.patterns import is_hypothetical_after, is_hypothetical_before
from roomlore.text.mentions import ADDRESS, name_at_head
from roomlore.text.recognisers import phrase_pattern
from roomlore.text.sentences import Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A clause of a sentence, with its own subject or with the subject of the clause before it."""

    #: The text from the subject to the end of the clause.
    text: str
    #: The index of the first character in the body.
    start: int
    #: The index where a coordinated subject such as "my wife and I" begins. If there is no such subject, it is equal to
    #: `start`.
    coordinated_from: int
    #: Filler words before the subject, such as "well" or "actually".
    prefix: str
    #: The number of characters of the address and the opening words of the sentence.
    lead_length: int
    sentence: Sentence
    #: Whether the clause is the first of its sentence, after the opening words.
    is_first: bool

    @property
    def rest(self) -> str:
        """The text of the sentence from this clause on."""
        return self.sentence.text[self.start - self.sentence.start :]

    @property
    def end(self) -> int:
        """The index in the body after the last character."""
        return self.start + len(self.text)

    @property
    def is_plain(self) -> bool:
        """Whether nothing else in the sentence, such as a condition, changes what the clause states."""
        start = self.start - self.sentence.start
        before = self.sentence.text[:start]
        if _BY_NOW.search(self.prefix):
            before = _FORMERLY.sub("", before)
        return not (
            _LABEL.search(self.sentence.text, self.lead_length, start)
            or is_hypothetical_before(before)
            or is_hypothetical_after(self.rest)
        )


#: A subject, or a verb of habit. Such a verb has the subject of the clause before it.
_SUBJECT = r"(?:i|i'm|im|i've|ive|i'll|my|we|we're|we've|we'll|let's|lets|our|please|never|always|don't)\b"
_BORDER = phrase_pattern(
    rf"(?:[,;]|:(?= )| -| \u2013| \u2014){{1,9}} (?:(?:and|but|so|because|since|as|plus|though|yet|cause|also) )?"
    rf"| (?:and|but|so|because|since|'cause|cuz|though|plus|as) (?={_SUBJECT})"
    r"| (?:and|but) (?=(?:(?:also|now|currently) )?(?:work|live|play|speak|prefer|love|hate|study|teach|own|drive|volunteer) )"
    r"| (?:(?:because|'cause|cuz) |since (?=(?:it|they|he|she|the|there|that|you)\b)|but (?!(?:also|not)\b)|so (?=(?:it|they|everything|the|there|that|you)\b))"
    r"| [:;]-?[)D(]+ | [\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+ | (?=@\w)"
)
#: A comma inside a list, or between a place and its country; such a comma ends no clause.
_LISTED = sentence_pattern(
    r",? (?:and|or) (?!(?i:i|im|we|my|he|she|it|they|you)\b)[\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$|(?:, [\w'&/+-]+(?: [\w'&/+-]+)?){1,6},? (?:and|or) [\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$"
    r"|, [A-Z][\w'-]+(?: [A-Z][\w'-]+)?(?=[,.!]|\W*$)"
)
#: Two adjectives of one noun, with a comma between them: "a small, cheap van", "I prefer long, slow walks".
_ADJECTIVE = phrase_pattern(
    r"\b(?:(?:an?|such|very|really) [\w-]+|(?P<bare>(?:prefer|love|hate|like|enjoy|dislike)s? [a-z]+(?<!s)(?<!ing)))$"
)
_NOUN = sentence_pattern(
    r", (?P<noun>[a-z][\w-]*(?: [\w-]+){0,2}?)(?=\W*$|[,;.!(]| (?:for|with|in|on|at|of|and|from|to|by|near|that|which)\b)"
)
_NO_NOUN = frozenset(
    """
    i you he she it we they my your this that there here no not yes ok okay thanks thank thx please too
    though really right man mate which who where when what how especially mostly so best nice good great
    come work see just btw is are was were be been has have had do does did can could will would should must
    may lol sorry even always never
    """.split()
)
#: Filler words before a statement, longer ones first.
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
    # These may end in a colon.
    r"|(?:correction|note|fyi|btw|heads up|update|reminder|tip|psa|edit|big news|good news|fun fact)\b[\s,.!:;*-]+"
)
_ADDRESS = sentence_pattern(rf"{ADDRESS}|\s{{0,9}}[\W_]{{1,6}}\s{{0,9}}(?=\w)")
#: A label before a statement. With a label, the statement may not be the author's own.
_LABEL = sentence_pattern(r":\s")
#: A second subject beside the author.
_SHARED = phrase_pattern(
    r"(?:^|[,;:] )(?P<who>(?!(?:i|we|you|they|he|she|it)\b)(?:(?:my|our|the|his|her) )?[\w'-]+(?: [\w'-]+)?) and $"
)
#: Words that state the present. With one of them, "used to" before a statement does not make it past.
_BY_NOW = sentence_pattern(r"(?i)\b(?:now|nowadays|these days)\b")
_FORMERLY = lazy_pattern(r"(?i)\bused to\b")
_MOST_OPENINGS = 5


def clauses_of(sentence: Sentence, called: Collection[str] = ()) -> list[Clause]:
    """Return the clauses of a sentence in order.

    `called` lists the lower-case names of people whom a message addresses if it begins with "Ana: …". Any other name in
    this place labels the speaker.
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
    """Return whether a comma divides two adjectives of the noun that follows."""
    noun = _NOUN.match(text, comma)
    if not noun or not _NO_NOUN.isdisjoint(noun["noun"].lower().split()):
        return False
    adjective = _ADJECTIVE.search(text, 0, comma)
    # A single word may be the whole object ("cheap, I like it"), so the next noun must be plural, as in "long, slow
    # walks".
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


def _skip_prefixes(text: str, start: int, *, called: Collection[str] = ()) -> int:
    """Return the index where the statement begins, after greetings, addresses and similar words."""
    for _ in range(_MOST_OPENINGS):
        match = _OPENING.match(text, start) or _ADDRESS.match(text, start)
        if not match:
            match = name_at_head(text, start)
            if not match or match["name"].casefold() not in called:
                break
        start = match.end()
    return start
