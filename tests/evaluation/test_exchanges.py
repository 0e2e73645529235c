from evaluation.datasets import DatasetMessage, GoldConversation, Link
from evaluation.exchanges import score_exchanges

TEXTS = {
    "1": ("ana", "who has the lantern?"),
    "2": ("bo", "when is lunch?"),
    "3": ("cy", "Dee has it"),
    "4": ("cy", "which lunch?"),
    "5": ("dee", "at noon"),
    "6": ("dee", "see you"),
}
MESSAGES = [
    DatasetMessage(id=key, room="hall", author_id=author, author_name=author, text=text)
    for key, (author, text) in TEXTS.items()
]
TALKS = [
    GoldConversation(room="hall", message_ids=("1", "3")),
    GoldConversation(room="hall", message_ids=("2", "4", "5", "6")),
]
LINKS = [Link(child="3", parent="1"), Link(child="4", parent="2"), Link(child="5", parent="2")]


def test_a_question_counts_with_an_answer_that_people_linked():
    edges = [Link(child="3", parent="1"), Link(child="6", parent="5")]
    assert score_exchanges(MESSAGES, LINKS, TALKS, edges=edges) == {
        "answered questions": 2,
        "with an answer in one exchange": 0.5,
        "precision": 0.5,
        "messages in exchanges of several": 0.6667,
        "largest exchange": 2,
    }


def test_without_links_the_next_message_of_the_conversation_counts():
    edges = [Link(child="5", parent="4"), Link(child="3", parent="2")]
    assert score_exchanges(MESSAGES, [], TALKS, edges=edges) == {
        "answered questions": 2,
        "with an answer in one exchange": 0.5,
        "precision": 0.5,
        "messages in exchanges of several": 0.6667,
        "largest exchange": 2,
    }
