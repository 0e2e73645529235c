"""Packs what the answer model learns from: `python -m training.pack_answer_pairs MIRROR BENCH PACK [--hold AUTHOR]`."""

import argparse
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from roomlore.models.local_embedding import LocalEmbedder
from training import answer_sets, corpora, message_sets, written_rooms
from training.answer_pairs import RENAMED_COPIES, packed, pairs_of
from training.answer_sets import Excerpt
from training.corpora import Mirror, Turns
from training.encoder_weights import encoder_weights

#: The most questions about who said what that are made of one corpus.
MOST_SAID = 4_000


def written(authors: Iterable[str]) -> list[Excerpt]:
    """Return the written excerpts of some authors."""
    return [
        excerpt
        for author in authors
        for read in (answer_sets.written, answer_sets.written_pairs, answer_sets.written_rooms)
        for excerpt in read(author)
    ]


def rooms(authors: Iterable[str]) -> Iterator[Turns]:
    """Yield parts of the written rooms of some authors."""
    for author in authors:
        for path in sorted((written_rooms.SETS / author).glob("*.jsonl")):
            said = [(one["author"], one["text"]) for one in message_sets.lines(path)]
            for start in range(0, len(said), answer_sets.EXCERPT):
                yield said[start : start + answer_sets.EXCERPT]


def main() -> None:
    """Write the pairs and the weights of the encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirror", type=Path)
    parser.add_argument("bench", type=Path)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--hold", action="append", default=[], help="an author whose texts are left out")
    parser.add_argument(
        "--copies", type=int, default=RENAMED_COPIES, help="copies of an excerpt with other names"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="the share of the excerpts outside `sets/questions`"
    )
    options = parser.parse_args()
    options.pack.mkdir(parents=True, exist_ok=True)
    embedder = LocalEmbedder.load()
    authors = sorted({*message_sets.authors(), *(path.name for path in answer_sets.WRITTEN.glob("*"))})
    names = message_sets.names_of(
        [one for author in authors for one in message_sets.of_messages(message_sets.SETS / author)]
    )
    learning = [author for author in authors if author not in options.hold]
    mirror = Mirror(options.mirror)
    learnt = [*written(learning), *answer_sets.public(mirror)]
    conversations = {
        "rooms said": rooms(learning),
        "topical said": corpora.topical_chat(mirror),
        **{f"{name} said": read() for name, read in corpora.bench(options.bench).items()},
    }
    for name, found in conversations.items():
        learnt += answer_sets.who_said(name, found, names, MOST_SAID)
    chance = random.Random(2)  # noqa: S311  not a secret
    learnt = [one for one in learnt if one.corpus == "written" or chance.random() < options.share]
    np.savez_compressed(
        options.pack / "pairs.npz", **packed(pairs_of(learnt, names, copies=options.copies), embedder)
    )
    np.savez_compressed(options.pack / "encoder.npz", **encoder_weights())


if __name__ == "__main__":
    main()
