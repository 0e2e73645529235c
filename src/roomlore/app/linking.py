"""What reads the pages that messages link to, on whatever machine a context is wanted."""

from roomlore.backends.articles import open_reader
from roomlore.domain.ports import ArticleReader


def article_reader() -> ArticleReader:
    """Return what reads linked pages, over the network of this machine.

    Raises:
        BadInput: what reads them is not installed.
    """
    return open_reader()
