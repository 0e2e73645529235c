"""Takes sentences apart into clauses that may state something, each with what leads to it and what follows."""

import re
from dataclasses import dataclass

from roomlore.extraction.cues import cue, is_unreal_after, is_unreal_before
from roomlore.extraction.sentences import Sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """Words of a sentence that have a subject of their own, or whose subject is that of the clause before."""

    #: As in the sentence, from its subject on.
    text: str
    #: Its place in the body.
    start: int
    #: Where it begins with whoever else is its subject, as in "my wife and I"; its start where nobody is.
    shared_from: int
    #: Words before the subject that say nothing of their own, as "well" or "actually".
    opening: str
    sentence: Sentence
    #: Whether its sentence begins with it, but for its opening.
    is_first: bool
    #: Whether what is around it lets it stand as it is.
    is_plain: bool

    @property
    def rest(self) -> str:
        """Return the sentence from here on."""
        return self.sentence.text[self.start - self.sentence.start :]

    @property
    def end(self) -> int:
        """Return where it ends in the body."""
        return self.start + len(self.text)


#: A subject, or a verb of habit whose subject was just said.
_SUBJECT = r"(?:i|i'm|im|i've|ive|i'll|my|we|we're|we've|we'll|let's|lets|our|please|never|always|don't)\b"
_BORDER = cue(
    rf"(?:[,;:]| -| \u2013| \u2014)+ (?:(?:and|but|so|because|since|as|plus|though|yet|cause|also) )?"
    rf"| (?:and|but|so|because|since|'cause|cuz|though|plus|as) (?={_SUBJECT})"
    r"| (?:and|but) (?=(?:(?:also|now|currently) )?(?:work|live|play|speak|prefer|love|hate|study|teach|own|drive|volunteer) )"
    r"| (?:because|'cause|cuz|since (?=(?:it|they|he|she|the|there|that|you)\b)|but (?!(?:also|not)\b)|so (?=(?:it|they|everything|the|there|that|you)\b)) ?"
    r"| [:;]-?[)D(]+ | [\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]+ | (?=@\w)"
)
#: A comma between the members of a list, or between a place and its country, ends nothing.
_LISTED = re.compile(
    r",? (?:and|or) [\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$|(?:, [\w'&/+-]+(?: [\w'&/+-]+)?){1,6},? (?:and|or) [\w'&/+-]+(?: [\w'&/+-]+){0,2}\W*$"
    r"|, [A-Z][\w'-]+(?: [A-Z][\w'-]+)?(?=[,.!]|\W*$)",
)
_OPENING = cue(
    r"(?:(?:well|so|ok(?:ay)?|o\.k\.|alright|all right|right|fine|yes|yep|yeah|yup|ya|nope|no|nah|oh|ah|aw|um+|uh+|hm+|hey|hi|hello|hi all|hi everyone"
    r"|hi everybody|hey all|fyi|btw|by the way|for the record|just so you know|honestly|personally|frankly|tbh|imo|imho"
    r"|in fact|(?:please )?note(?: that)?|heads up|and|but|also|plus|since|because|as|cause|actually|sorry|correction|anyway"
    r"|big news|good news|update|though|still|these days|nowadays|now|currently|basically|to be honest|thanks"
    r"|thank you|sure|great|cool|nice|wow|remember(?: that)?|keep in mind(?: that)?|don't forget(?: that)?"
    r"|remind you that|just|see|look|listen|guys|folks|everyone|all|fun fact|after all|myself|me|reminder|in general|generally"
    r"|at least|as you know|as always|of course|unfortunately|luckily|sadly|finally|same|oops|scratch that|never ?mind|nvm)\b[\s,.!:;*-]+)"
)
_ADDRESS = re.compile(
    r"(?:@[\w.|\[\]-]{1,40}|<@!?\w{1,30}>)[\s,:]*|[\w|\[\]`^{}.-]{2,30}[:,]\s+(?=\S)|\s*[\W_]{1,6}\s*(?=\w)"
)
#: Somebody who does it together with whoever speaks.
_SHARED = cue(
    r"(?:^|[,;:] )(?P<who>(?!(?:i|we|you|they|he|she|it)\b)(?:(?:my|our|the|his|her) )?[\w'-]+(?: [\w'-]+)?) and $"
)
#: What used to be so says nothing against what is so by now.
_BY_NOW, _FORMERLY = re.compile(r"(?i)\b(?:now|nowadays|these days)\b"), re.compile(r"(?i)\bused to\b")
_MOST_OPENINGS = 5


def clauses(sentence: Sentence) -> list[Clause]:
    """Return the clauses of a sentence in order."""
    text = sentence.text
    borders = [0, *(match.end() for match in _BORDER.finditer(text))]
    ends = [*(match.start() for match in _BORDER.finditer(text)), len(text)]
    return [_clause(sentence, begin, _listed(text, end)) for begin, end in zip(borders, ends, strict=True)]


def _listed(text: str, end: int) -> int:
    match = _LISTED.match(text, end)
    return match.end() if match else end


def _clause(sentence: Sentence, begin: int, end: int) -> Clause:
    text = sentence.text
    start = _skip(text, begin, end)
    is_first = start <= _skip(text, 0, len(text))
    opening, before, after = text[0 if is_first else begin : start], text[:start], text[start:]
    if _BY_NOW.search(opening):
        before = _FORMERLY.sub("", before)
    return Clause(
        text=text[start:end].rstrip(),
        start=sentence.start + start,
        shared_from=sentence.start + (shared.start("who") if (shared := _SHARED.search(before)) else start),
        opening=opening,
        is_first=is_first,
        sentence=sentence,
        is_plain=not (is_unreal_before(before) or is_unreal_after(after)),
    )


def _skip(text: str, start: int, end: int) -> int:
    """Return where the words begin that say something, behind greetings, addresses and the like."""
    for _ in range(_MOST_OPENINGS):
        match = _OPENING.match(text, start, end) or _ADDRESS.match(text, start, end)
        if not match:
            break
        start = match.end()
    return start
