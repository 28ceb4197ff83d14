"""What lessons are made of: predictions, quizzes, progress, the board, the lab and its pictures."""
