"""Splits a message into sentences, and separates the author's own words from quoted words.

There are two splitters on purpose. `own_sentences_of` is for extraction. It leaves out everything that another person
may have written, so that nobody counts as the author of it by mistake. `sentences_of` is for privacy requests. It keeps
quotations and pasted text, because a missed request costs more than a wrong one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern, sentence_pattern

#: Replaces each letter that is not the author's own. Patterns do not match it, but it is part of a word.
MASK = "\ue000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence and its place in a message body."""

    #: The text. It is as long as in the body. Apostrophes and blanks are normalised, and quoted letters are masked.
    text: str
    start: int

    @property
    def end(self) -> int:
        """The index in the body after the last character."""
        return self.start + len(self.text)


#: The maximum number of characters that `sentences_of` reads.
MAX_CHARACTERS = 20_000
_SIMPLE_SENTENCE = lazy_pattern(r"[^.!?;\n]+(?:[.!?;](?!\s|$)[^.!?;\n]+)*[.!?;]*")
_TITLE = lazy_pattern(r"\b(Dr|Mr|Mrs|Ms|Prof)\.\s")
_QUOTE_MARK = lazy_pattern(r"\s*(?:>|&gt;)")


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, also split at semicolons. Parts that are too long for a sentence are left out."""
    whole = _TITLE.sub(r"\1 ", text[:MAX_CHARACTERS])
    found = (match[0].strip() for match in _SIMPLE_SENTENCE.finditer(whole))
    return [sentence for sentence in found if sentence and len(sentence) <= MAX_SENTENCE_LENGTH]


def without_quoted_lines(body: str) -> str:
    """Return a body without the lines that begin with a quote mark. Each line ends with a newline character."""
    return "\n".join(line for line in body.splitlines() if not _QUOTE_MARK.match(line))


def own_sentences_of(body: str) -> list[Sentence]:
    """Return the sentences of a body that are its author's own words, in order."""
    found: list[Sentence] = []
    for start, line in _own_lines(_masked(body)):
        for sentence in _split(line, start):
            found.append(sentence)
            if _FRAMING.match(sentence.text):
                return found
    return found


# Letters: each replacement is as long as the original, so that positions stay the same.

_PLAIN = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u00a0": " ", "\t": " ", "\u201f": '"'})
_QUOTED = lazy_pattern(
    r"""
      (?P<fence>```.*?(?:```|\Z) | ~~~.*?(?:~~~|\Z))
    | (?<!\d)"[^"\n]{1,400}" | \u00bb[^\u00ab\n]{1,400}\u00ab
    # Several lines, up to the end if it is never closed. Each paragraph may begin with another mark. Inside a line a
    # mark after a letter or before a blank opens nothing: 27" wide.
    | (?:(?<![\w.!?])"(?![.,;:!?)\ ]) | (?<![^\n])\ *(?:[-*\u2022]\ )?")[^"]*(?:(?<!\S)"(?=\w)[^"]*)*(?:"|\Z)
    | \u201c[^\u201d]*(?:\u201d|\Z) | \u201e[^\u201c\u201d]*(?:[\u201c\u201d]|\Z)
    | (?<![\w.!?])\u00ab[^\u00bb]*(?:\u00bb|\Z)
    | `[^`\n]{1,200}`
    | (?<![\w'])'(?=[A-Za-z])(?:[^']|(?<=\w)'(?=\w)){1,400}'(?!\w)
    | (?<![*\w])\*(?=[^*\s])[^*\n]{1,300}\*(?![*\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_LETTER = lazy_pattern(r"\S")
#: Words before a colon that introduce another person's words.
_REPORTING = r"""
    (?: (?<!\bi\ )(?<!\bwe\ )(?<!\bi\ just\ )(?<!'ve\ )\b(?:sa(?:id|ys)|tells|told|wr(?:ote|ites)|texts|texted|messaged|mailed
        |asked|replie[ds]|answered|tweeted|claim(?:s|ed)|quot(?:es?|ed|ing))\b
      | \b(?:according\ to|in\ the\ words\ of|overheard)\b | \w's?\ (?:(?!my\b|our\b)\w+\ )?(?:note|message|mail|email|text|letter|answer|reply|words?|post|comment)s?\b )
    (?:\ (?!(?:i|we|my|our)\b)[^\s.!?:]{1,30}){0,5}(?:\ ?:|\ [-\u2013\u2014](?=\ ))"""
#: Another person's words after one of these introductions. They end at an empty line and may span several lines.
_REPORTED = lazy_pattern(
    rf"(?P<lead>{_REPORTING}\ +)(?P<words>\S(?:[^\n]|\n(?!\s*\n|\Z))*)", re.VERBOSE | re.IGNORECASE
)


def _masked(body: str) -> str:
    text = _QUOTED.sub(_mask, body.translate(_PLAIN)).replace("**", "  ").replace("__", "  ")
    return _REPORTED.sub(lambda match: match["lead"] + _LETTER.sub(MASK, match["words"]), text)


def _mask(match: re.Match[str]) -> str:
    if match["fence"]:
        return "".join("\n" if letter == "\n" else " " for letter in match[0])
    inner = match[0][1:-1]
    # A single word between these marks is a name or emphasised, so it is the author's own.
    if match[0][0] in "`*" and " " not in inner:
        return match[0]
    return _LETTER.sub(MASK, match[0])


# Lines

#: A line after which the rest of the body is another person's.
_FORWARDED = sentence_pattern(
    rf"""
    \s*(?: --\s*$ | -{{2,}}\s*(?:original|begin) | \W*(?:begin\ )?forwarded\ (?:message|from) | fwd?:
    | (?:from|von|de|van|fra):\ \S | on\ .{{4,120}}\bwrote:\s*$ | .{{0,80}}{_REPORTING}\s*$
    | dear\ [^.!?]{{2,60}},\s*$ | .{{0,80}}\b(?:past|cop[yi]|quot|forward|lyrics|poem)[a-z]*\b.{{0,80}}:\s*$ )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PASTED = lazy_pattern(
    r"""
    [ ]{4,}(?![-*\u2022\d]) | \s*(?: <(?![@\#:])[^>\s]{1,40}> | <!-- | // | [\u2013\u2014]\s | \[[^\]\n]{1,60}\]\s*:?\s*(?:<|\[|\S{1,30}:\s|\() | \[[^\]\n]{1,60}\]:
    | \[?\d{1,2}:\d{2}(?::\d{2})?\]?\s+(?:<|\S{1,30}:\s) | \[?\d{4}-\d\d-\d\d[\sT]
    | [A-Z]{4,9}[:\s]\s*(?=.*\d{2}:\d{2}) | \[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b
    | Traceback\ \( | File\ ".{1,200}line | at\ [\w$.]+\( | \w*(?:Error|Exception):\s | [$\#%]\s | \|\s
    | \+\s | /me\s | [*_(\[]{1,2}(?:rp|ooc|ic|in\ character|roleplay|acting)\b )
    """,
    re.VERBOSE,
)
#: A line that names an author after a dash: "... - Anna Petrovna, chapter nine".
_ATTRIBUTED = lazy_pattern(
    r"\s(?:--?|[\u2013\u2014~])\s?(?:[A-Z][\w.'-]+\s+){1,3}[A-Z][\w.'-]+(?:,[^.!?]*)?\W*$"
)
_LONGEST_ATTRIBUTION = 160
_SUNG = lazy_pattern("[\u2669-\u266c\U0001f3b5\U0001f3b6\U0001f3bc]")
#: "Ana: …" at the beginning of several lines is a transcript. At the beginning of only one line, it may address Ana.
_SPEAKER = lazy_pattern(r"\s*[\w][\w .'|-]{0,30}:\s+\S")
_BULLET = lazy_pattern(r"\s*(?:[-*\u2022]|\d{1,2}[.)])\s+|\s*#{1,6}\s+")


def _own_lines(text: str) -> Iterator[tuple[int, str]]:
    lines = text.split("\n")
    is_change = any(line.startswith("+ ") for line in lines)
    is_transcript = sum(1 for line in lines if _SPEAKER.match(line[:80])) > 1
    start, inside_trace = 0, False
    for line in lines:
        head = line[:300]
        if _FORWARDED.match(head):
            return
        inside_trace = "Traceback (" in head or (inside_trace and head.startswith((" ", "\t")))
        is_removed = is_change and head.startswith("-")
        is_spoken = is_transcript and _SPEAKER.match(head)
        is_foreign = _is_foreign_line(head) or _ATTRIBUTED.search(line[-_LONGEST_ATTRIBUTION:])
        if not (is_removed or inside_trace or is_foreign or is_spoken):
            bullet = _BULLET.match(line)
            skipped = bullet.end() if bullet else 0
            yield start + skipped, line[skipped:]
        start += len(line) + 1


def _is_foreign_line(head: str) -> bool:
    return bool(_QUOTE_MARK.match(head) or _PASTED.match(head) or _SUNG.search(head))


# Sentences

#: Words after which the rest of a message is a game, a hypothetical case, or another person's words.
_FRAMING = sentence_pattern(
    r"""
    (?:(?:ok(?:ay)?|so|now|just|and|well|hey|right)\b[\s,]*)*
    (?: imagine\b | picture\ (?:this|that|the|it)\b | (?:let'?s\ |let\ us\ )?pretend\b | suppose\b(?!\ so)
      | here(?:'s|\ is|\ are|\ comes?)\ (?:(?:an?|some|the|two|three|my)\ )?(?:lies?|fibs?|jokes?|poems?|lyrics|riddles?)\b
      | here(?:'s|\ is)\ (?:what|how)\ (?!(?:i|we)\b).*\b(?:say|said|says|tell|tells|told|write|writes|wrote|claim|sound)s?\b
      | .*\b(?:two|three)\ (?:truths|lies)\b )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_END = lazy_pattern(r"(?<![.!?\u2026])[.!?\u2026]++[\"')\]*_\ue000]*+(?=\s|$)|[\u3002\uff01\uff1f]")
_ABBREVIATED = lazy_pattern(
    r"(?:^|[\s(])(?:etc|vs|cf|dr|mr|mrs|ms|prof|st|mt|no|nr|approx|ca|fig|vol|inc|ltd|co|jr|sr|dept|est|stud|univ|apt"
    r"|bldg|govt|assoc|intl|hosp|ave|blvd|(?P<letters>(?:[a-z]\.)*)[a-z])\.$",
    re.IGNORECASE,
)
_WORDS = lazy_pattern(r"\w")
_LAUGHS = lazy_pattern(r"\s*(?:lol|lmao|rofl|haha\w*|jk|/s|xd|kidding|(?-i:NOT))\b\W*$", re.IGNORECASE)


def _split(line: str, offset: int) -> Iterator[Sentence]:
    start = 0
    for end in _ends(line):
        text = line[start:end]
        stripped = text.strip()
        if len(stripped) <= MAX_SENTENCE_LENGTH and _WORDS.search(stripped):
            yield Sentence(text=stripped, start=offset + start + len(text) - len(text.lstrip()))
        start = end


def _ends(line: str) -> Iterator[int]:
    """Yield the index of each sentence end. Text without words, and laughter, belong to the sentence before."""
    ends = [match.end() for match in _END.finditer(line) if _is_end(line, match)]
    if not ends or ends[-1] < len(line):
        ends.append(len(line))
    for end, following in zip(ends, [*ends[1:], len(line)], strict=True):
        rest = line[end : min(following, end + 40)]
        if end == len(line) or (_WORDS.search(rest) and not _LAUGHS.match(rest)):
            yield end


def _is_end(line: str, match: re.Match[str]) -> bool:
    after = line[match.end() : match.end() + 2].strip()
    if match[0].startswith(("..", "\u2026")) and after[:1].islower():
        return False
    short = _ABBREVIATED.search(line[max(0, match.start() - 9) : match.end()])
    # An abbreviation with several dots may also end a sentence, as in "in D.C. My wife".
    return match[0] != "." or not short or bool(short["letters"] and after[:1].isupper())
