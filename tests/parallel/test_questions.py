"""Questions between ranks that are threads."""

import numpy as np

from l2g2g.parallel.questions import ask, ask_by_rank

from .threads import run_ranks


def test_answers_come_back_in_the_order_of_the_questions():
    def work(communicator):
        rank = communicator.rank
        numbers = np.array([7, 1, 5, 3]) + 10 * rank
        question, places = ask_by_rank(communicator, "sums", numbers, np.array([2, 0, 2, 1]))
        in_order = ask(communicator, "sums", numbers, [0, 1, 3])
        return question.answer(question.received * 100 + rank)[places], in_order.answer(in_order.received + rank)

    for rank, (found, ordered) in enumerate(run_ranks(3, work)):
        assert found.tolist() == [702 + 1000 * rank, 100 + 1000 * rank, 502 + 1000 * rank, 301 + 1000 * rank]
        assert ordered.tolist() == [8 + 10 * rank, 3 + 10 * rank, 7 + 10 * rank, 5 + 10 * rank]
