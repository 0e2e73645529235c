"""Removes secrets from everything that is stored.

Exports contain live credentials: file addresses with tokens, webhook addresses, keys that somebody pasted into a
message. If something is certainly a secret, a marker replaces it. If text only resembles a secret, it stays unchanged.
Every pattern takes time linear in the text, because the text may come from an attacker.
"""

import re

from roomlore.domain.patterns import lazy_pattern

MARKER = "[secret removed]"

#: Formats that only credentials have. Each format includes trailing characters, so that removing one secret reveals no
#: other secret.
TOKENS = lazy_pattern(
    r"""
      (?<=\b[Bb]earer[ ])(?=[\w.~+/-]{0,40}\d)[\w.~+/-]{20,}=*  # bearer tokens
    | \bxox[abcdeprs]-[\w%-]{8,} | \bxoxo-\d[\w-]{8,}  # Slack tokens; "xoxo-hugs" is a greeting
    | \bxapp-\d-[\w-]{8,}                             # Slack application tokens
    | \bgh[oprsu]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}                              # GitLab
    | \bsk-(?=[\w-]{0,40}\d)(?:(?:ant|proj|or|svcacct|admin|live|test)-[\w-]{20,}|[A-Za-z0-9]{20,})
    | \bsk_(?:live|test)_[A-Za-z0-9]{16,}             # Stripe; the line above: language model providers
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                   # AWS access keys
    | \bAIza[\w-]{35,}                                # Google
    | (?:\b|(?<=bot))\d{8,10}:AA[\w-]{32,}            # Telegram bots; in an address after "bot"
    | (?<![^\W_])rlk_[\w-]{20,}                       # our own keys
    | \bhf_[A-Za-z0-9]{30,} | \bnpm_[A-Za-z0-9]{36,} | \bpypi-A[\w-]{40,}
    | \bSG\.[\w-]{16,}+\.[\w-]{16,}                   # SendGrid
    | (?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,} # JSON web tokens
    | -----BEGIN[ A-Z]{0,40}PRIVATE[ ]KEY-----.*?(?:-----END[ A-Z]{0,40}PRIVATE[ ]KEY-----(?:eyJ[\w.-]*)?|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
DISCORD_TOKEN = lazy_pattern(r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}")
#: The middle of a token. It is faster to find than the whole token.
DISCORD_MIDDLE = lazy_pattern(r"\.[\w-]{6}\.[\w-]{27}")
PREFIX = lazy_pattern(r"gh[oprsu]_|github_pat_|hf_|npm_|rlk_|sk_")
#: Values inside addresses. A short `key=` or `auth=` is an ordinary parameter.
IN_ADDRESS = lazy_pattern(
    r"""
      (?P<query>(?:[?&\#]|&amp;)(?:(?:access_?|refresh_?|id_?)?token|api_?key|(?:client_?)?secret|password
        |x-amz-signature|x-amz-security-token)=)(?!\[secret)[^&\s"'<>|]+
    | (?P<long>(?:[?&\#]|&amp;)(?:auth|key|sig|signature)=)(?:(?!\[secret)[^&\s"'<>|]){16,}
    | (?P<slack>(?:[?&\#]|&amp;)t=)xo[\w%-]{3,}
    | (?P<webhook>/api/(?:v\d+/)?webhooks/\d+/)[\w-]{20,}
    | (?P<hook>hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/-]+
    | (?P<aws>aws_secret_access_key[ ]{0,2}[=:][ ]{0,2}["']?)[a-z0-9/+]{40,}=*
    # A password may hold "/" and "@"; digits and a "/" are a port, and "[" begins a numeric address.
    | (?P<userinfo>(?<=[a-z0-9+.-])://[^\s/:@\[?&\#]*:)(?:(?!\d{1,5}[/?\#])[^\s"'<>|]{1,256}|[^\s/@]+)(?=@)
    """,
    re.VERBOSE | re.IGNORECASE,
)
#: Fields whose value is always a secret.
SECRET_FIELDS = frozenset(
    {
        *("token", "access_token", "refresh_token", "api_key", "apikey", "password"),
        *("secret", "client_secret", "aws_secret_access_key"),
    }
)
#: The shortest secret with its context is longer than "?token=x" or "a://b:c@".
MIN_SECRET_LENGTH = 8
DOTS_IN_DISCORD_TOKEN = 2


def remove_secrets(text: str) -> tuple[str, int]:
    """Return the text with secrets replaced by a marker, and the number of secrets."""
    if len(text) < MIN_SECRET_LENGTH:
        return text, 0
    addressed = tokens = bots = 0
    if _may_hold_address(text):
        text, addressed = IN_ADDRESS.subn(_keep_address, text)
    if _may_hold_token(text):
        text, tokens = TOKENS.subn(_mark, text)
    if text.count(".") >= DOTS_IN_DISCORD_TOKEN:
        text, bots = DISCORD_TOKEN.subn(_mark, text)
    return text, addressed + tokens + bots


# Nearly no text has a secret, and a substring search is much faster than a pattern.


def _may_hold_address(text: str) -> bool:
    return (
        "=" in text
        or ("/" in text and ("@" in text or "hooks" in text.lower()))
        or ("_" in text and ":" in text and "aws_secret" in text.lower())
    )


def _may_hold_token(text: str) -> bool:
    return (
        ("-" in text and ("xox" in text or "sk-" in text or "xapp-" in text))
        or ("-" in text and ("glpat-" in text or "pypi-" in text or "-----BEGIN" in text))
        or ("_" in text and PREFIX.search(text) is not None)
        or "earer " in text
        or "SG." in text
        or ("J" in text and "eyJ" in text)
        or ("A" in text and ":AA" in text)
        or ("I" in text and ("AIza" in text or "AKIA" in text or "ASIA" in text))
    )


def _mark(_: re.Match[str]) -> str:
    return MARKER


#: Each address or field with a secret contains one of these, in lower case.
SECRET_HINTS = ("token", "api", "key=", "secret", "password", "auth=", "sig", "t=xo", "hooks")


def is_harmless(text: str) -> bool:
    """Return whether a JSON record contains no trace of a secret. The check is fast and has false alarms."""
    lowered = text.lower()
    for trace in SECRET_HINTS:
        if trace in lowered:
            return False
    return (
        ("@" not in text or "://" not in text)
        and not _may_hold_token(text)
        and not DISCORD_MIDDLE.search(text)
    )


def _keep_address(match: re.Match[str]) -> str:
    kept = next(group for group in match.groups() if group is not None)
    return kept + MARKER
