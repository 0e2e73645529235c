"""Takes secrets out of whatever is about to be stored.

Exports carry live credentials: file addresses with tokens in them, webhook addresses, keys pasted into a
message. What is certainly a secret is replaced by a marker; what only looks odd stays as said.
Every pattern takes time linear in the text: what is scanned may come from somebody hostile.
"""

import re

MARKER = "[secret removed]"

#: Formats that nothing but a credential has.
TOKENS = re.compile(
    r"""
      \bxox[abcdeprs]-[\w%-]{8,} | \bxoxo-\d[\w-]{8,}  # Slack tokens; "xoxo-hugs" is a greeting
    | \bxapp-\d-[\w-]{8,}                             # Slack application tokens
    | \bgh[oprsu]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}                              # GitLab
    | \bsk-(?=[\w-]{0,40}\d)(?:(?:ant|proj|or|svcacct|admin|live|test)-[\w-]{20,}|[A-Za-z0-9]{20,})
    | \bsk_(?:live|test)_[A-Za-z0-9]{16,}             # Stripe; the line above: language model providers
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                   # AWS access keys
    | \bAIza[\w-]{35}                                 # Google
    | \b\d{8,10}:AA[\w-]{32,}                         # Telegram bots
    | (?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,} # JSON web tokens
    | -----BEGIN[ A-Z]{0,40}PRIVATE[ ]KEY-----.*?(?:-----END[ A-Z]{0,40}PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
DISCORD_TOKEN = re.compile(r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}")
#: Values inside addresses. A short `key=` or `auth=` is an ordinary parameter.
IN_ADDRESS = re.compile(
    r"""
      (?P<query>(?:[?&\#]|&amp;)(?:(?:access_?|refresh_?|id_?)?token|api_?key|(?:client_?)?secret|password
        |x-amz-signature|x-amz-security-token)=)(?!\[secret)[^&\s"'<>|]+
    | (?P<long>(?:[?&\#]|&amp;)(?:auth|key|sig|signature)=)[^&\s"'<>|]{16,}
    | (?P<slack>(?:[?&\#]|&amp;)t=)xo[\w%-]+
    | (?P<webhook>/api/(?:v\d+/)?webhooks/\d+/)[\w-]{20,}
    | (?P<hook>hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]+
    | (?P<userinfo>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}://[^\s/:@]+:)[^\s/@]+(?=@)
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Fields whose value is a secret whatever it looks like.
SECRET_FIELDS = frozenset(
    {"token", "access_token", "refresh_token", "api_key", "apikey", "secret", "client_secret", "password"}
)
#: No secret with what gives it away is shorter than "?token=x" or "a://b:c@".
SHORTEST = 8
DOTS_IN_DISCORD_TOKEN = 2


def strip(text: str) -> tuple[str, int]:
    """Return the text with each secret replaced by a marker, and how many there were."""
    if len(text) < SHORTEST:
        return text, 0
    addressed = tokens = bots = 0
    if _may_hold_address(text):
        text, addressed = IN_ADDRESS.subn(_keep_address, text)
    if _may_hold_token(text):
        text, tokens = TOKENS.subn(_mark, text)
    if text.count(".") >= DOTS_IN_DISCORD_TOKEN:
        text, bots = DISCORD_TOKEN.subn(_mark, text)
    return text, addressed + tokens + bots


# Nearly every text holds no secret, and a plain substring is found much faster than a pattern.


def _may_hold_address(text: str) -> bool:
    return "=" in text or ("/" in text and ("@" in text or "hooks" in text.lower()))


def _may_hold_token(text: str) -> bool:
    return (
        ("-" in text and ("xox" in text or "sk-" in text or "xapp-" in text))
        or ("-" in text and ("glpat-" in text or "-----BEGIN" in text))
        or ("_" in text and ("gh" in text or "_pat_" in text or "sk_" in text))
        or "eyJ" in text
        or ":AA" in text
        or "AIza" in text
        or "AKIA" in text
        or "ASIA" in text
    )


def _mark(_: re.Match[str]) -> str:
    return MARKER


#: What every address with a secret holds, and every field that is one, in lower case.
TRACES = ("token", "api", "key=", "secret", "password", "auth=", "sig", "t=xo", "hooks")


def is_harmless(text: str) -> bool:
    """Return whether a whole record, as JSON text, holds no trace of a secret: a quick look, not a verdict."""
    lowered = text.lower()
    return (
        not any(trace in lowered for trace in TRACES)
        and ("@" not in text or "://" not in text)
        and not _may_hold_token(text)
        and not DISCORD_TOKEN.search(text)
    )


def _keep_address(match: re.Match[str]) -> str:
    kept = next(group for group in match.groups() if group is not None)
    return kept + MARKER
