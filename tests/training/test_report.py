from l2g2g.training.report import EpochReport


def test_curves_hold_what_there_is():
    assert EpochReport(3, 0.5, 0.1).curves() == {"loss": 0.5}
    whole = EpochReport(3, 0.5, 0.1, validation=0.9, refreshed=True, measure=lambda: 0.25)
    assert whole.curves() == {"loss": 0.5, "validation AUC": 0.9, "refresh residual": 0.25}


def test_the_residual_is_measured_only_when_it_is_asked_for_and_new():
    asked = []

    def measure():
        asked.append(True)
        return 0.25

    still = EpochReport(3, 0.5, 0.1, measure=measure)
    assert still.residual is None
    fresh = EpochReport(3, 0.5, 0.1, refreshed=True, measure=measure)
    assert asked == []
    assert fresh.residual == 0.25
    assert asked == [True]
