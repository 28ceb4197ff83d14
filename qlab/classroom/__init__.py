"""What lessons are made of: predictions, quizzes, progress, the board, the lab and its pictures."""

import logging

# At its first import on a machine it builds a cache of fonts and says so, which would be news in a lesson.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
