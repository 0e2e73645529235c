"""Measures the shipped message model on sets of messages: `python -m training.measure_message_model FOLDER...`.

A folder has `acts.jsonl`, `requests.jsonl`, `pairs.jsonl` and `answers.jsonl`, or some of them.
"""

import argparse
from pathlib import Path

from roomlore.models.message_model import MessageModel, TextsTogether
from training import message_measures, message_sets


def main() -> None:
    """Print the figures of each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    model = MessageModel.load()
    for folder in options.folders:
        examples = message_sets.of_messages(folder)
        outputs = model.outputs([TextsTogether(texts=one.texts, segments=one.segments) for one in examples])
        lines = message_measures.report(examples, outputs)
        lines += message_measures.at_threshold(examples, outputs, model.request_threshold)
        lines += message_measures.acts_at(examples, outputs, model.act_thresholds)
        for line in lines:
            print(f"{folder.name}: {line}")  # noqa: T201  the figures


if __name__ == "__main__":
    main()
