"""The probability that a message answers a question, by the message model, where the earlier message asks something."""

from collections.abc import Sequence

from roomlore.models.message_model import MessageInContext, MessageModel

#: The probability of the act, read without context, from which on a message counts as a question. It is lower than the
#: threshold of the act, because the reply is known (docs/decisions/which-replies-form-a-thread.md).
QUESTION_THRESHOLD = 0.3


def answer_probabilities(model: MessageModel, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """Return for each pair of an earlier and a later text whether the later one answers; None if nothing is asked."""
    earlier = list(dict.fromkeys(question for question, _ in pairs))
    read = model.read([MessageInContext(text=text) for text in earlier])
    asking = {
        text for text, one in zip(earlier, read, strict=True) if one.acts["question"] >= QUESTION_THRESHOLD
    }
    asked = [pair for pair in pairs if pair[0] in asking]
    answers = dict(zip(asked, model.answers(asked).tolist(), strict=True)) if asked else {}
    return [answers.get(pair) for pair in pairs]
