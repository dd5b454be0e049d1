"""Phases of a trace claim what the trace knows: forward begins where the graph does."""

from harness import TrainglassTest, main
from traces import event

STEP_US = 10_000


def op(name, start, length, sequence=None, thread=5, backward=False, category="cpu_op"):
    args = {} if sequence is None else {"Sequence number": sequence,
                                        "Fwd thread id": 1 if backward else 0}
    return event(name, start, length, category, 5, thread, **args)


def step(number, before, thread=5):
    """Ops of `before` us, a forward pass of 1 ms, a backward of 2 ms, an update of 1 ms."""
    at, first = number * STEP_US, 10 * number
    begin = at + 5000
    return [op(name, at + start, length, first if carries else None)
            for name, start, length, carries in before] + [
        op("aten::linear", begin, 600, first), op("aten::addmm", begin + 100, 400, first),
        op("aten::nll_loss", begin + 700, 250, first + 1),
        op("autograd::engine::evaluate_function: NllLossBackward0", begin + 1000, 900, first + 1,
           thread, True),
        op("NllLossBackward0", begin + 1100, 700, first + 1, thread, True),
        op("autograd::engine::evaluate_function: AddmmBackward0", begin + 1950, 1050, first,
           thread, True),
        op("AddmmBackward0", begin + 2000, 900, first, thread, True),
        op("Optimizer.step#SGD.step", begin + 3000, 1000, category="user_annotation")]


class TracePhases(TrainglassTest):
    def phases(self, events):
        rows = self.answer("analyze", self.write(events))["step_rows"][1:]  # the first begins with the trace
        return [tuple(row[f"{phase}_ms"] for phase in ("forward", "backward", "optimizer"))
                for row in rows]

    def test_what_precedes_the_first_op_of_the_graph_is_not_forward(self):
        batch = [("aten::randn", 100, 50, False), ("aten::mul", 300, 40, True)]  # peeks a number
        evaluation = [("aten::linear", 100 * i, 90, False) for i in range(40)]
        for before in ([], batch, evaluation, batch + evaluation):
            for thread in (5, 6):
                events = [one for number in range(4) for one in step(number, before, thread)]
                self.assertEqual(self.phases(events), [(1, 2, 1)] * 3)

    def test_zero_grad_within_the_forward_pass_does_not_end_it(self):
        events = [one for number in range(3) for one in step(number, []) + [
            op("Optimizer.zero_grad#SGD.zero_grad", number * STEP_US + 5960, 20,
               category="user_annotation")]]
        self.assertEqual(self.phases(events), [(0.98, 2, 1)] * 2)

    def test_without_sequence_numbers_forward_reaches_back_to_the_update(self):
        events = [one for number in range(3) for one in step(number, [])]
        for one in events:
            one["args"] = {}
        self.assertEqual(self.phases(events), [(7, 2, 1)] * 2)

    def test_between_evaluations_of_a_closure_the_time_is_the_optimizers(self):
        events = []
        for number in range(3):
            at = number * STEP_US
            events.append(op("Optimizer.step#LBFGS.step", at + 100, 9800,
                             category="user_annotation"))
            for evaluation in range(3):
                begin, node = at + 200 + 3000 * evaluation, 10 * number + evaluation
                events += [op("aten::linear", begin, 500, node),
                           op("AddmmBackward0", begin + 500, 500, node, backward=True),
                           op("aten::dot", begin + 1500, 100)]
        self.assertEqual(self.phases(events), [(1.5, 1.5, 6.7)] * 2)


if __name__ == "__main__":
    main()
