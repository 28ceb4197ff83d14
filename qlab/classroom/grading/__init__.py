"""Grades a folder of submitted notebooks: `pytest --submissions DIR` (see docs/instructor.md)."""
