"""Recognises sentences that are no plain statements of their author.

Examples are jokes, conditions, hearsay, retractions and secrets. Nothing is extracted from a sentence that matches one
of these patterns. A missed fact is better than a wrong fact.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from roomlore.domain.claims import SourceText
from roomlore.domain.ids import MessageId
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern, sentence_pattern
from roomlore.text.recognisers import hints_at_confidentiality, is_question, phrase_pattern
from roomlore.text.sentences import MASK, Sentence, own_sentences_of

JOKE = lazy_pattern(
    r"\b(?:that was a joke|just a joke|not really\W*$|lol|lmao|lmfao|rofl|jk|(?:a?ha){2,}h?|he(?:he)+|xd|kidding|joking|sarcasm|sarcastic|ironic(?:ally)?"
    r"|literally|[bgz]\w{0,3}illions?|a million (?:times|things|\w+s))\b"
    r"|(?<!\S)/s\b|(?<!\S)/j\b|[\U0001f602\U0001f923\U0001f61c\U0001f61d\U0001f609\U0001f643\U0001f60f\U0001f92a\U0001f644]"
    r"|(?<!\w);-?\)|(?<!\w)[:;=]-?p\b|\byeah,? right\b|\boh,? (?:great|joy|sure|yeah|wonderful)\b|\bas if\b|(?-i:\bNOT\W*$)",
    re.IGNORECASE,
)
#: A message that is only a laugh.
_LAUGH = sentence_pattern(
    # A possessive quantifier, because "hehehehe" can be divided in too many ways.
    r"(?:(?:lol|lmf?ao|rofl|xd|(?:a?ha){2,}+(?:h(?![ae]))?|he(?:he)++"
    r"|[\U0001f602\U0001f923\U0001f606\U0001f639]|[:;=x]-?d)[\s.!]*+)+",
    re.IGNORECASE,
)
#: Words before a statement. They show that the statement is another person's, hypothetical, or no longer true.
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
#: Words in a statement or after it. They show that the statement is another person's, hypothetical, or no longer true.
_UNREAL_AFTER = phrase_pattern(
    r"\b(?:if|unless|maybe|perhaps|prob(?:ably|s)?|possibly|i (?:guess|think|suppose|hope|doubt)|hopefully|not sure"
    r"|might|would(?:n't)?|could(?:n't)?|or something|or not|or so|back then|at the time|until (?:19|20)\d\d"
    r"|(?:when|while|before) i was|in those days|for now|at the moment|right now|atm|in theory|theoretically|hypothetically|supposedly|as long as|depending"
    r"|in another life|once upon|in the (?:play|game|story)|user story|as a joke|metaphorically|so to speak|provided|assuming|given that|iirc|afaik|at this point|no more(?=\W*$))\b"
)
#: Words in a statement that make it temporary: true today, perhaps not tomorrow.
_TEMPORARY = phrase_pattern(
    r"\b(?:today|tonight|this (?:morning|afternoon|evening|week|weekend|month|time)|for (?:the|a) (?:day|night|week|weekend|month|while)|until (?:tomorrow|tonight|next)|(?:just|only) for now)\b"
)
#: Filled pauses, and marks of a transcriber, which show that a statement is not finished.
_BROKEN = sentence_pattern(
    r"\{|\b(?:uh|um|eh|er|erm|mmm?|hmm)\b|\w-\s|\s-\s?-|\u2014|\.\.|\u2026|(\b\w+) \1\b|(\bi \w+) .{0,20}\2\b",
    re.IGNORECASE,
)
#: Words that begin another clause without punctuation before it.
_RUN_ON = phrase_pattern(
    r"(?<![\w'+.-])(?P<before>[\w'+.-]+) (?:(?:it|they|he|she|this|that) (?:has|have|is|was|were|are|does|doesn't|did|didn't|works?|worked|just|keeps?|can|can't|will|won't"
    r"|makes?|needs?|seems?|uses?|gets?|only) \w|i (?:can't|cannot|want|need|get|am|don't|just) \w|you (?:have to|need to|can|can't|should|must)\b"
    r"|(?:what's|what (?:is|are|should|do|can)|who can|how (?:do|can)|there (?:is|are)|does any(?:one|body)|can any(?:one|body))\b|(?:cos|coz|pls|plz)\b)"
)
#: Words that connect a clause to the one before it.
_JOINING = frozenset(
    """
    that and but so if as when while where how what why because since than until before after whatever
    whenever like to of in on at for from with by about or which who whether though although unless once
    it's
    """.split()
)
_FOREIGN = sentence_pattern(
    r"\b(?:und|nicht|weil|ist|sich|auch|aber|eine?|mit|ich|wir|der|das|les|des|est|une|dans|avec|pour|mais|nous|je"
    r"|pas|que|los|las|pero|para|con|muy|esta?|como|por|het|een|niet|van|maar|ik|wij|voor|non|sono|perch\u00e9|della|gli"
    r"|n\u00e3o|voc\u00ea|uma|det|och|jag|nie|jest|nem|bir|ve|ama)\b",
    re.IGNORECASE,
)
_FOREIGN_WORDS = 2
#: Words of messages that may contain a credential.
_SECRET_WORD = lazy_pattern(
    r"\b(?:pass(?:word|wd|code|phrase)s?|pins?(?= (?:is|code|number))|api[ _-]?keys?|secrets?|tokens?|credentials?"
    r"|private key|(?:card|account|passport|social security|insurance|id) (?:number|no)|ssn|iban|cvv|2fa|otp"
    r"|seed phrase)\b|\[secret removed\]|\b(?:\d[ -]?){12,19}\b|(?<![/\w.-])(?=[\w-]{0,40}\d)(?=[\w-]{0,40}[a-z])[\w-]{24,}",
    re.IGNORECASE,
)
#: Words that begin a correction, denial or retraction.
CORRECTION_PREFIX = (
    r"(?:(?:oh|ah|oops|uh+|um+|hm+|no|nope|nah|well|wait|hold on|sorry|ok(?:ay)?|true|actually|my bad|apologies|please|pls)"
    r"[\s,.!]+)*"
)
_RETRACTING_WORDS = r"scratch that|never ?mind|nvm"
#: Opens a statement that replaces an earlier statement of the same author.
CORRECTION_OPENING = phrase_pattern(rf"\s*(?:actually|correction|sorry|no,|wait|{_RETRACTING_WORDS})")
#: At the start of a message or sentence: retracts what the same author wrote before.
_RETRACTION = phrase_pattern(
    rf"{CORRECTION_PREFIX}(?:{_RETRACTING_WORDS}|jk|"
    r"(?:i'm |i was )?(?:(?:just|only|obviously|clearly|of course) )*(?:kidding|joking)|strike that|disregard|(?:lol|(?:a?ha){2,}h?)[\s,.!]+(?:no|not really|i wish)\b"
    r"|ignore (?:that|me|this|my)|i take (?:that|it) back|not serious(?:ly)?|wrong (?:window|channel|chat|room|person)"
    r"|forget (?:that|what i|i said|about (?:that|it)|it)|(?:please )?(?:delete|remove|erase|drop) "
    r"(?:that|this|it|what i said|my (?:last )?message)(?! (?:line|file|branch|from|in|at)))"
)
#: Words at the start of a sentence that say that the text before it in the message is another person's or untrue.
_DENIES_AUTHORSHIP = phrase_pattern(
    r"(?:none|not a word|no word) of (?:that|this|it|those) (?:is|was|are|were) true|(?:total|complete|utter|pure) (?:nonsense|fiction)"
    r"|(?:that|this|those|these|it)(?:'s| is| was| are| were) (?:what|how) (?!(?:i|we)\b)[\w ']{1,40}\b(?:say|said|tell|told|write|wrote|claim|put)s?\b"
    r"|(?:(?:those|these) (?:are|were) )?(?:his|her|their|\w+'s) (?:own )?words\b"
)

#: Phrases that report another person's words; agents write little else.
_RELAYED = phrase_pattern(
    r"\b(?:relay(?:s|ed|ing)?|on behalf|respon(?:se|ses|dents?|ded)|said|says|wrote|writes|told|tells|ticket|via|forward(?:s|ed|ing)?"
    r"|quot(?:e|es|ed|ing)|survey|transcripts?|according|reports?|reported|submitted|message from)\b",
    most=None,
)


def is_reported_speech(body: str) -> bool:
    """Return whether a message reports another person's words."""
    return bool(_RELAYED.search(body))


def is_foreign(text: str) -> bool:
    """Return whether a sentence has words of another language."""
    return sum(1 for _ in _FOREIGN.finditer(text)) >= _FOREIGN_WORDS


def is_hypothetical_after(text: str) -> bool:
    """Return whether a statement or the rest of its sentence is conditional, uncertain or about the past."""
    return bool(_UNREAL_AFTER.search(text))


def is_hypothetical_before(text: str) -> bool:
    """Return whether the words before a statement make it hearsay, hypothetical or about the past."""
    return bool(_UNREAL_BEFORE.search(text))


def is_temporary(text: str) -> bool:
    """Return whether a statement holds only for a day or a week."""
    return bool(_TEMPORARY.search(text))


def is_disfluent(text: str) -> bool:
    """Return whether words are stammered, unfinished, or continue into another sentence without punctuation."""
    return bool(_BROKEN.search(text)) or any(
        match["before"].lower() not in _JOINING for match in _RUN_ON.finditer(text)
    )


#: Words that refer to something outside the text, so that the text cannot be understood alone.
_VAGUE = phrase_pattern(
    r"(?:it|its|it's|this|that|that's|these|those|them|him|her|hers|his|he|she|they|their|you|you're|your|ya|u|ur|me|us|into|out|up|there|here|ones?(?= (?:is|was|that|who|which|of)\b|\W*$)|some"
    r"|somebody|someone|what|whatever|how|when|where|who|why|both|all(?= (?:that|this|of|those|these)\b|\W*$)|everything|everyone|anything|nothing|something"
    r"|either|neither|so|too|not|more|to(?=\W*$)|my ?self|to (?:say|ask|admit|think|bother|interrupt|break|see|hear|tell)"
    r"|the (?:idea|way|fact|thought|sound|looks?|feeling|same|(?:first|latter|former|other|one|new|old)(?= (?:one|is|was)\b|\W*$)))(?!\w)"
)


def is_unresolved_reference(words: str) -> bool:
    """Return whether a text refers to something outside the text, like "it" or "that one"."""
    stripped = words.strip(" .,!*_")
    return not stripped or bool(_VAGUE.match(stripped)) or not stripped.strip(MASK)


# Exclusions

#: A message that announces the next message and states nothing itself.
_ANNOUNCES = sentence_pattern(
    r"(?i)\b(?:something|a secret|some (?:news|things?)|this next|the next|what i (?:say|tell|am about))\b|:\s*$"
)
#: The maximum number of messages between a retraction or a request for confidentiality and the message that it is
#: about.
_MAX_DISTANCE = 8
#: After a request for confidentiality, so many further messages of its author are confidential, too.
_CONFIDENTIAL_NEXT = 3
#: A sentence with fewer words states nothing.
_FEWEST_WORDS = 3


def excluded_messages(said: Sequence[SourceText]) -> set[MessageId]:
    """Return the messages of a conversation from which nothing is extracted.

    A message is excluded if it is confidential, retracted or laughed at, or may contain a credential.
    """
    return {message.message_id for place in range(len(said)) for message in _excluded_by(said, place)}


def eligible_sentences(body: str) -> Sequence[Sentence]:
    """Return the author's own sentences in a body.

    If a sentence retracts the text before it, only this sentence and later sentences are returned.
    """
    parts = own_sentences_of(body)
    retractions = [
        number
        for number, part in enumerate(parts)
        if number and (_RETRACTION.match(part.text) or _DENIES_AUTHORSHIP.match(part.text))
    ]
    return parts[retractions[-1] :] if retractions else parts


def _excluded_by(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield the messages that a message excludes. Often this is the message itself."""
    message = said[place]
    if _SECRET_WORD.search(message.body):
        yield message
    if hints_at_confidentiality(message.body):
        yield message
        # If a message with a request also states something, the request is about this message. Otherwise it is about
        # the author's messages next to it.
        if not _states_something(message.body):
            yield from _previous(said, place)
            yield from _next(said, place)
    elif _RETRACTION.match(message.body.lstrip()[:MAX_SENTENCE_LENGTH]):
        yield from _previous(said, place)
    elif _LAUGH.fullmatch(message.body.strip()):
        yield from _answered_by_laugh(said, place)


def _states_something(body: str) -> bool:
    """Return whether a message states something before it asks for confidentiality."""
    before = takewhile(lambda part: not hints_at_confidentiality(part.text), own_sentences_of(body))
    return any(
        len(part.text.split()) >= _FEWEST_WORDS
        and not (is_question(part.text) or _ANNOUNCES.search(part.text))
        for part in before
    )


def _previous(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield the author's message that a message refers to.

    This is the author's own message that it replies to. If there is none, it is the author's last message.
    """
    message = said[place]
    own = [one for one in said[max(0, place - _MAX_DISTANCE) : place] if one.author_id == message.author_id]
    answered = [one for one in said[:place] if one.message_id == message.answers] if message.answers else []
    if answered and answered[0].author_id == message.author_id:
        yield answered[0]
    elif own:
        yield own[-1]


def _answered_by_laugh(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    """Yield the message that a laugh answers.

    This is the message that it replies to, or the last message if another person wrote it.
    """
    message = said[place]
    before = [one for one in said[:place] if one.message_id == message.answers] or said[
        max(0, place - 1) : place
    ]
    yield from (one for one in before if one.author_id != message.author_id)


def _next(said: Sequence[SourceText], place: int) -> Iterator[SourceText]:
    following = said[place + 1 : place + 1 + _MAX_DISTANCE]
    own = [one for one in following if one.author_id == said[place].author_id]
    yield from own[:_CONFIDENTIAL_NEXT]
