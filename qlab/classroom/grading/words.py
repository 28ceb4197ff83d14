"""The sentence for each mistake, from the text files."""

from qlab.classroom.texts import MissingText, text


def explain(exercise: str, mistake: str) -> str:
    """What this mistake means, for a learner. Raises MissingText for a code without a sentence."""
    try:
        return text(f"grading/{exercise}.mistakes.{mistake}")
    except MissingText:
        return text(f"grading/common.reasons.{mistake}")


def title(exercise: str, check: str) -> str:
    """What a check is about, for a learner."""
    return text(f"grading/{exercise}.checks.{check}")


def report(key: str) -> str:
    """A word or sentence of the report itself."""
    return text(f"grading/common.report.{key}")
