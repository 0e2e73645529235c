"""What in a sentence says that it is no plain statement of its author's: asked, joked, wished, heard, confided.

A cue is a warning, not a reading: where one is seen nothing is credited, and a fact too many missed is better than
one made up.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern, sentence_pattern
from roomlore.memories.sentences import MASK

#: Nobody leaves wider blanks within what they say; a run without end would be divided in every way.
BLANK_PATTERN, APOSTROPHE_PATTERN = r"\s{1,9}", "\\s?['\u2019]?\\s?"


#: Full forms of what is mostly said short; a pattern of the short one matches either.
_FULL = {
    "i'm": "i am",
    "i'll": "i will",
    "i've": "i have",
    "we're": "we are",
    "we'll": "we will",
    "we've": "we have",
    "don't": "do not",
    "it's": "it is",
}
_TYPED = re.compile(rf"\[[^\]]*\]|\b(?P<short>{'|'.join(_FULL)})\b|(?P<apostrophe>')|(?P<blank> )")


_PART = re.compile(r"(?<!P)<(\w+)>")


def phrase_pattern(
    pattern: str, parts: Mapping[str, str] = MappingProxyType({}), *, most: int | None = MAX_SENTENCE_LENGTH
) -> re.Pattern[str]:
    """Return a pattern in which a blank is any blanks, an apostrophe may be missing, and short forms may be full.

    Args:
        pattern: What is looked for, in any case.
        parts: What stands for `<name>` in it.
        most: As in `later`: None for what is looked for in whole messages, in linear time.
    """
    whole = _PART.sub(lambda part: f"(?:{parts[part[1]]})", pattern)
    return lazy_pattern(_TYPED.sub(_as_typed, whole), re.IGNORECASE, most=most)


def _as_typed(match: re.Match[str]) -> str:
    if short := match["short"]:
        return f"(?:{_apostrophes(short)}|{_FULL[short].replace(' ', BLANK_PATTERN)})"
    if match["apostrophe"]:
        return APOSTROPHE_PATTERN
    return BLANK_PATTERN if match["blank"] else match[0]


def _apostrophes(short: str) -> str:
    return short.replace("'", APOSTROPHE_PATTERN)


_QUESTION_END = sentence_pattern(r"\?[^\w]*$|,\s(?:right|huh|eh|isn'?t it)\W*$", re.IGNORECASE)
_ASKING = phrase_pattern(
    r"(?:who|what|why|how|where|which|when|whose|anyone|anybody|any)\b"
    r"|(?:do|does|did|is|are|am|was|were|can|could|will|would|should|shall|may|has|have|had|isn't|aren't|don't"
    r"|doesn't|didn't|haven't|hasn't|won't|can't)"
    r" (?:i|you|u|we|he|she|they|it|the|my|your|our|this|that|there|some|any)\b"
)
JOKE = lazy_pattern(
    r"\b(?:that was a joke|just a joke|not really\W*$|lol|lmao|lmfao|rofl|jk|(?:a?ha){2,}h?|he(?:he)+|xd|kidding|joking|sarcasm|sarcastic|ironic(?:ally)?"
    r"|literally|[bgz]\w{0,3}illions?|a million (?:times|things|\w+s))\b"
    r"|(?<!\S)/s\b|(?<!\S)/j\b|[\U0001f602\U0001f923\U0001f61c\U0001f61d\U0001f609\U0001f643\U0001f60f\U0001f92a\U0001f644]"
    r"|(?<!\w);-?\)|(?<!\w)[:;=]-?p\b|\byeah,? right\b|\boh,? (?:great|joy|sure|yeah|wonderful)\b|\bas if\b|(?-i:\bNOT\W*$)",
    re.IGNORECASE,
)
#: A message that is nothing but a laugh.
LAUGH = sentence_pattern(
    # Each laugh is taken whole: "hehehehe" divided in every way takes years.
    r"(?:(?:lol|lmf?ao|rofl|xd|(?:a?ha){2,}+(?:h(?![ae]))?|he(?:he)++"
    r"|[\U0001f602\U0001f923\U0001f606\U0001f639]|[:;=x]-?d)[\s.!]*+)+",
    re.IGNORECASE,
)
#: Said before a statement: it is somebody else's, a case that is thought of, or no longer so.
_UNREAL_BEFORE = phrase_pattern(
    r"\b(?:if|unless|whether|suppos(?:e|ing|edly)|imagine|pretend|assum(?:e|ing)|provided|in case|let's say|say"
    r"|would|could|might|may (?:be|have|not|well)|maybe|perhaps|prob(?:ably|s)?|possibly|likely|hopefully"
    r"|apparently|allegedly|presumably|seemingly|wish(?:es)?|hope|dreams?|thinks?|thought|guess|believes?|feels?"
    r"|says|said|saying|tells?|telling|told|ask(?:s|ed|ing)?|claim(?:s|ed)?|hears?|heard|read|wrote|writes?"
    r"|according|quote|used to|back then|when(?:ever)?|while|once|until|till|playing|as (?:an?|the) (?!team\b)\w+"
    r"|in (?:the|this|that|my) (?:play|game|story|film|movie|book|novel|dream|song)|in character|(?:is|was|were|are|be|'s) like|goes"
    r"|(?:best|worst|ideal) case|ideally|in an? (?:perfect|ideal|better|parallel|different) \w+|scenario|picture|one day|some ?day"
    r"|the (?:day|moment|minute)\W*$|rumou?rs?|word is|on paper|complain(?:s|ed|ing)?|insist(?:s|ed|ing)?|repeat(?:s|ed|ing)?|per the"
    r"|obviously|clearly|truly|surely|false|neither|nor|by no means|nobody|no one|relay(?:s|ed|ing)?|on behalf"
    r"|not (?:like|that|true|sure)|no (?:idea|clue)|someone|somebody|wants?|doubt|suddenly|all of a sudden|feel like|it's like|why|how|where|poem|joke|lyrics?)\b"
)
#: Said in a statement or after it.
_UNREAL_AFTER = phrase_pattern(
    r"\b(?:if|unless|maybe|perhaps|prob(?:ably|s)?|possibly|i (?:guess|think|suppose|hope|doubt)|hopefully|not sure"
    r"|might|would(?:n't)?|could(?:n't)?|or something|or not|or so|back then|at the time|until (?:19|20)\d\d"
    r"|(?:when|while|before) i was|in those days|for now|at the moment|right now|atm|in theory|theoretically|hypothetically|supposedly|as long as|depending"
    r"|in another life|once upon|in the (?:play|game|story)|user story|as a joke|metaphorically|so to speak|provided|assuming|given that|iirc|afaik|at this point|no more(?=\W*$))\b"
)
#: Said in a statement: it holds today, and need not tomorrow.
_TEMPORARY = phrase_pattern(
    r"\b(?:today|tonight|this (?:morning|afternoon|evening|week|weekend|month|time)|for (?:the|a) (?:day|night|week|weekend|month|while)|until (?:tomorrow|tonight|next)|(?:just|only) for now)\b"
)
#: Filled pauses and marks of a transcriber: what is said is not finished.
_BROKEN = sentence_pattern(
    r"\{|\b(?:uh|um|eh|er|erm|mmm?|hmm)\b|\w-\s|\s-\s?-|\u2014|\.\.|\u2026|(\b\w+) \1\b|(\bi \w+) .{0,20}\2\b",
    re.IGNORECASE,
)
#: Begins another clause, which nothing divides from the word before it.
_RUN_ON = phrase_pattern(
    r"(?<![\w'+.-])(?P<before>[\w'+.-]+) (?:(?:it|they|he|she|this|that) (?:has|have|is|was|were|are|does|doesn't|did|didn't|works?|worked|just|keeps?|can|can't|will|won't"
    r"|makes?|needs?|seems?|uses?|gets?|only) \w|i (?:can't|cannot|want|need|get|am|don't|just) \w|you (?:have to|need to|can|can't|should|must)\b"
    r"|(?:what's|what (?:is|are|should|do|can)|who can|how (?:do|can)|there (?:is|are)|does any(?:one|body)|can any(?:one|body))\b|(?:cos|coz|pls|plz)\b)"
)
#: What does join a clause to the words before it.
_JOINING = frozenset(
    [
        "that",
        "and",
        "but",
        "so",
        "if",
        "as",
        "when",
        "while",
        "where",
        "how",
        "what",
        "why",
        "because",
        "since",
        "than",
        "until",
        "before",
        "after",
        "whatever",
        "whenever",
        "like",
        "to",
        "of",
        "in",
        "on",
        "at",
        "for",
        "from",
        "with",
        "by",
        "about",
        "or",
        "which",
        "who",
        "whether",
        "though",
        "although",
        "unless",
        "once",
        "it's",
    ]
)
_FOREIGN = sentence_pattern(
    r"\b(?:und|nicht|weil|ist|sich|auch|aber|eine?|mit|ich|wir|der|das|les|des|est|une|dans|avec|pour|mais|nous|je"
    r"|pas|que|los|las|pero|para|con|muy|esta?|como|por|het|een|niet|van|maar|ik|wij|voor|non|sono|perch\u00e9|della|gli"
    r"|n\u00e3o|voc\u00ea|uma|det|och|jag|nie|jest|nem|bir|ve|ama)\b",
    re.IGNORECASE,
)
_FOREIGN_WORDS = 2
#: Whatever stands with one of these may be a key to something.
SECRET_WORD = lazy_pattern(
    r"\b(?:pass(?:word|wd|code|phrase)s?|pins?(?= (?:is|code|number))|api[ _-]?keys?|secrets?|tokens?|credentials?"
    r"|private key|(?:card|account|passport|social security|insurance|id) (?:number|no)|ssn|iban|cvv|2fa|otp"
    r"|seed phrase)\b|\[secret removed\]|\b(?:\d[ -]?){12,19}\b|(?<![/\w.-])(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[a-z])[\w-]{24,}",
    re.IGNORECASE,
)
#: Asks that something said be not passed on, or not kept.
CONFIDENTIAL = phrase_pattern(
    r"\b(?:off (?:the )?record|between (?:us|you and me|ourselves)|don't (?:tell (?!me\b)|(?:mention|repeat|share) (?:this|that|it|any)\b)"
    r"|keep (?:this|that|it|these) (?:to|between|private|quiet|secret|confidential|under)|confidential(?:ly)?"
    r"|in confidence|in private|nobody (?:else )?(?:must|should|may|can|needs to) know|hush-hush"
    r"|for your (?:eyes|ears) only|(?:shouldn't|mustn't|can't) (?:know|find out))\b",
    most=None,
)
#: Stands in front of what sets something right, denies it or takes it back.
CORRECTION_PREFIX = (
    r"(?:(?:oh|ah|oops|uh+|um+|hm+|no|nope|nah|well|wait|hold on|sorry|ok(?:ay)?|true|actually|my bad|apologies|please|pls)"
    r"[\s,.!]+)*"
)
_RETRACTING_WORDS = r"scratch that|never ?mind|nvm"
#: The opening of what is to take the place of something said before.
CORRECTION_OPENING = phrase_pattern(rf"\s*(?:actually|correction|sorry|no,|wait|{_RETRACTING_WORDS})")
#: Takes back what the same person said before; at the head of a message or sentence.
RETRACTION = phrase_pattern(
    rf"{CORRECTION_PREFIX}(?:{_RETRACTING_WORDS}|jk|"
    r"(?:i'm |i was )?(?:(?:just|only|obviously|clearly|of course) )*(?:kidding|joking)|strike that|disregard|(?:lol|(?:a?ha){2,}h?)[\s,.!]+(?:no|not really|i wish)\b"
    r"|ignore (?:that|me|this|my)|i take (?:that|it) back|not serious(?:ly)?|wrong (?:window|channel|chat|room|person)"
    r"|forget (?:that|what i|i said|about (?:that|it)|it)|(?:please )?(?:delete|remove|erase|drop) "
    r"(?:that|this|it|what i said|my (?:last )?message)(?! (?:line|file|branch|from|in|at)))"
)
#: Gives what stands before it in the same message to another, or to nobody; at the head of a sentence.
DENIES_AUTHORSHIP = phrase_pattern(
    r"(?:none|not a word|no word) of (?:that|this|it|those) (?:is|was|are|were) true|(?:total|complete|utter|pure) (?:nonsense|fiction)"
    r"|(?:that|this|those|these|it)(?:'s| is| was| are| were) (?:what|how) (?!(?:i|we)\b)[\w ']{1,40}\b(?:say|said|tell|told|write|wrote|claim|put)s?\b"
    r"|(?:(?:those|these) (?:are|were) )?(?:his|her|their|\w+'s) (?:own )?words\b"
)

#: Passes on what another said, somewhere in a message; agents do little else.
_RELAYED = phrase_pattern(
    r"\b(?:relay(?:s|ed|ing)?|on behalf|respon(?:se|ses|dents?|ded)|said|says|wrote|writes|told|tells|ticket|via|forward(?:s|ed|ing)?"
    r"|quot(?:e|es|ed|ing)|survey|transcripts?|according|reports?|reported|submitted|message from)\b",
    most=None,
)


def is_reported_speech(body: str) -> bool:
    """Return whether a message passes on what another said."""
    return bool(_RELAYED.search(body))


def is_question(text: str) -> bool:
    """Return whether a sentence asks."""
    return bool(_QUESTION_END.search(text) or _ASKING.match(text))


def is_foreign(text: str) -> bool:
    """Return whether a sentence holds words of other languages."""
    return sum(1 for _ in _FOREIGN.finditer(text)) >= _FOREIGN_WORDS


def is_hypothetical_after(text: str) -> bool:
    """Return whether a statement, or what follows it in its sentence, takes it back or makes it depend."""
    return bool(_UNREAL_AFTER.search(text))


def is_hypothetical_before(text: str) -> bool:
    """Return whether what leads to a statement makes it another's, or one that is only thought of."""
    return bool(_UNREAL_BEFORE.search(text))


def is_temporary(text: str) -> bool:
    """Return whether a statement is one of a day or a week."""
    return bool(_TEMPORARY.search(text))


def is_disfluent(text: str) -> bool:
    """Return whether words were stammered, left unfinished, or run on into another sentence."""
    return bool(_BROKEN.search(text)) or any(
        match["before"].lower() not in _JOINING for match in _RUN_ON.finditer(text)
    )


#: Points at what stands elsewhere, so that a statement of it cannot be read alone.
_VAGUE = phrase_pattern(
    r"(?:it|its|it's|this|that|that's|these|those|them|him|her|hers|his|he|she|they|their|you|you're|your|ya|u|ur|me|us|into|out|up|there|here|ones?(?= (?:is|was|that|who|which|of)\b|\W*$)|some"
    r"|somebody|someone|what|whatever|how|when|where|who|why|both|all(?= (?:that|this|of|those|these)\b|\W*$)|everything|everyone|anything|nothing|something"
    r"|either|neither|so|too|not|more|to(?=\W*$)|my ?self|to (?:say|ask|admit|think|bother|interrupt|break|see|hear|tell)"
    r"|the (?:idea|way|fact|thought|sound|looks?|feeling|same|(?:first|latter|former|other|one|new|old)(?= (?:one|is|was)\b|\W*$)))(?!\w)"
)


def is_unresolved_reference(words: str) -> bool:
    """Return whether words point at something that is not among them."""
    stripped = words.strip(" .,!*_")
    return not stripped or bool(_VAGUE.match(stripped)) or not stripped.strip(MASK)
