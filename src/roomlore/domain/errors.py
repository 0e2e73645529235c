"""Everything Roomlore raises on purpose.

RoomloreError
 ├── BadInput            the caller's data or argument is wrong; says which and why
 │    ├── TextRefused    the embedding model takes nothing like a text
 │    └── UnknownFormat  no reader recognises the file
 ├── NotFound            no such thing, or the viewer may not see it: one answer for both
 ├── NotAllowed          the key does not give the right; says nothing about what there is
 ├── KeyRefused          no such key, or it has expired or was revoked: one answer for all
 ├── Conflict            two facts that cannot both hold
 ├── DatabaseError
 │    ├── DatabaseUnavailable   no server, or it refuses us
 │    │    ├── DatabaseFull     its disk is full: what is stored can be read, and nothing is written
 │    │    └── QueryTimeout     a read was given up that took longer than it may
 │    └── SchemaMismatch        the schema is older or newer than this code
 ├── BackendUnavailable  a projection's server cannot be reached, refuses us, or holds a copy unlike ours
 │    └── CopyUnavailable     one copy is gone, unlike ours or slow; its server may answer for others
 ├── ModelUnavailable    the embedding model's files are missing or not the ones expected, or its server fails
 └── ServerUnavailable   a server whose client this is cannot be reached, or does not answer as Roomlore does

Each class keeps its facts as fields and builds its own message; surfaces map class to status in one table.
"""


class RoomloreError(Exception):
    """Base of every error that Roomlore raises on purpose."""


class BadInput(RoomloreError):
    """The caller's data or argument is wrong."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class TextRefused(BadInput):
    """The embedding model takes nothing like one of these texts; which one is not known."""


class UnknownFormat(BadInput):
    """No reader recognises the file."""


class NotFound(RoomloreError):
    """No such thing, or the viewer may not see it; the two are never told apart."""

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"no {what} {key!r}")
        self.what = what
        self.key = key


class NotAllowed(RoomloreError):
    """The caller's role does not give the right; what the call was about was not looked at."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not allowed: {what}")
        self.what = what


class KeyRefused(RoomloreError):
    """There is no such key, or it has expired or was revoked; the three are never told apart."""

    def __init__(self) -> None:
        super().__init__("the key is not valid")


class Conflict(RoomloreError):
    """Two facts that cannot both hold."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class DatabaseError(RoomloreError):
    """Something is wrong with the database itself."""


class DatabaseUnavailable(DatabaseError):
    """The server cannot be reached or started."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}\n  {cure}" if cure else why)
        self.why = why
        self.cure = cure


class DatabaseFull(DatabaseUnavailable):
    """The disk of the database is full: nothing is written until there is room, and what is stored stays readable."""

    def __init__(self, why: str = "the disk of the database is full: this was not written") -> None:
        super().__init__(why, cure="free some of it, or make it larger; Roomlore then goes on by itself")


class QueryTimeout(DatabaseUnavailable):
    """A question to the database was given up that took longer than whoever asks may hold a connection."""

    def __init__(self) -> None:
        super().__init__("this took longer than it may", cure="ask for less, or later")


class SchemaMismatch(DatabaseError):
    """The schema is not the one this code was written for.

    `found` is 0 where there is none. A version below `oldest` cannot be brought to a newer one.
    """

    def __init__(self, *, found: int, wanted: int, oldest: int) -> None:
        if found > wanted:
            self.cure = "install a newer Roomlore"
        elif 0 < found < oldest:
            self.cure = (
                "it is from before the first release and cannot be brought forward:"
                " name a new folder with --data or an empty database with --database, and import again"
            )
        else:
            self.cure = "run: roomlore migrate"
        super().__init__(f"the database schema is at version {found}, this code needs {wanted}; {self.cure}")
        self.found = found
        self.wanted = wanted
        self.oldest = oldest

    @property
    def can_be_migrated(self) -> bool:
        """Whether `roomlore migrate` brings the database to this code."""
        return self.found == 0 or self.oldest <= self.found < self.wanted


class BackendUnavailable(RoomloreError):
    """The server of a projection cannot be reached, takes nothing on now, refuses us, or its copy is unlike ours."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}")
        self.why = why
        self.cure = cure


class IndexUnavailable(BackendUnavailable):
    """One copy is gone, is unlike ours, or does not answer this in time; of others its server may tell."""


class ModelUnavailable(RoomloreError):
    """The embedding model's files are missing or not the ones expected, or its server gives no vectors."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}")
        self.why = why
        self.cure = cure


class ServerUnavailable(RoomloreError):
    """The server whose client this is cannot be reached, takes nothing on now, or does not answer as Roomlore does."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}" if cure else why)
        self.why = why
        self.cure = cure
