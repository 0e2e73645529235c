"""Computes the probability that a message answers an earlier message that is a question, with the message model."""

from collections.abc import Sequence

from roomlore.models.message_model import MessageInContext, MessageModel

#: The lowest probability of the act `question`, read without context, at which a message counts as a question. It is
#: lower than the model's threshold of this act, because here a reply to the message is already known
#: (docs/decisions/which-replies-form-a-thread.md).
QUESTION_THRESHOLD = 0.3


def answer_probabilities(model: MessageModel, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
    """Return for each pair of texts the probability that the later text answers the earlier text.

    The probability is None if the earlier text is not a question.
    """
    earlier = list(dict.fromkeys(question for question, _ in pairs))
    read = model.read([MessageInContext(text=text) for text in earlier])
    asking = {
        text for text, one in zip(earlier, read, strict=True) if one.acts["question"] >= QUESTION_THRESHOLD
    }
    asked = [pair for pair in pairs if pair[0] in asking]
    answers = dict(zip(asked, model.answers(asked).tolist(), strict=True)) if asked else {}
    return [answers.get(pair) for pair in pairs]
