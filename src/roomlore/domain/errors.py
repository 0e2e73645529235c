"""Every exception that Roomlore raises on purpose.

The classes form one tree under `RoomloreError`. Each class has its facts as fields and builds its own message. Each
surface maps the classes to its status codes in one table.
"""


class RoomloreError(Exception):
    """Base of all errors that Roomlore raises on purpose."""


class BadInput(RoomloreError):
    """An argument or the data of the caller is wrong. The message says which argument, and why."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class TextRefused(BadInput):
    """The embedding model refuses at least one of the texts. It is unknown which one."""


class UnknownFormat(BadInput):
    """No importer recognises the file."""


class NotFound(RoomloreError):
    """The thing asked for does not exist, or the viewer may not see it. Both cases give the same error."""

    def __init__(self, what: str, key: str) -> None:
        super().__init__(f"no {what} {key!r}")
        self.what = what
        self.key = key


class NotAllowed(RoomloreError):
    """The caller's role does not give the right. Nothing was looked up."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not allowed: {what}")
        self.what = what


class KeyRefused(RoomloreError):
    """The key does not exist, has expired or was revoked. All cases give the same error."""

    def __init__(self) -> None:
        super().__init__("the key is not valid")


class Conflict(RoomloreError):
    """The request conflicts with the current state."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class DatabaseError(RoomloreError):
    """Something is wrong with the database itself."""


class DatabaseUnavailable(DatabaseError):
    """The database server cannot be reached or started, or refuses the connection."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}\n  {cure}" if cure else why)
        self.why = why
        self.cure = cure


class DatabaseFull(DatabaseUnavailable):
    """The disk of the database is full. Writes fail until there is space again; reads still work."""

    def __init__(self, why: str = "the disk of the database is full: this was not written") -> None:
        super().__init__(why, cure="free some of it, or make it larger; Roomlore then goes on by itself")


class QueryTimeout(DatabaseUnavailable):
    """A read took longer than its statement timeout."""

    def __init__(self) -> None:
        super().__init__("this took longer than it may", cure="ask for less, or later")


class SchemaMismatch(DatabaseError):
    """The schema is older or newer than this code.

    `found` is 0 if there is no schema. A version below `oldest` cannot be migrated.
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
        """Whether `roomlore migrate` can bring the database to this version."""
        return self.found == 0 or self.oldest <= self.found < self.wanted


class BackendUnavailable(RoomloreError):
    """The server of a projection cannot be reached, is busy or refuses us, or its index is not the expected one."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}")
        self.why = why
        self.cure = cure


class IndexUnavailable(BackendUnavailable):
    """One index is lost, is too slow or differs from the expected one. Other indexes on the server may work."""


class ModelUnavailable(RoomloreError):
    """Files of the embedding model are missing or wrong, or its server fails."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}")
        self.why = why
        self.cure = cure


class ServerUnavailable(RoomloreError):
    """The Roomlore server of this client cannot be reached or is busy, or something else answers at its address."""

    def __init__(self, why: str, *, cure: str) -> None:
        super().__init__(f"{why}; {cure}" if cure else why)
        self.why = why
        self.cure = cure
